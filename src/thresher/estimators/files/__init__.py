"""Model files, exports, and the progress of long fits."""

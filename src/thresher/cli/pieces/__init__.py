"""What several commands use: options, places of files, live progress, and the work of ``thresher train``."""

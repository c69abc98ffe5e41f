"""The search with certificates: watchlists are written by the scan of the start, looked at by visits, and renewed."""

"""Units: a closed table of what they mean (``known.py``), and cells such as ``1,6 ml`` or ``2 days 03:10`` read by it
(``amounts.py``)."""

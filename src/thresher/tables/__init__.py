"""Tables from files: CSV, Parquet, .npz with X and y, or a pair of .npy; text columns become numbers."""

from thresher.tables.columns import Column, ParquetRows, read_columns
from thresher.tables.encoding import Encoding
from thresher.tables.table import Table, guess_task, read_table, say_label, split_table

__all__ = [
    "Column",
    "Encoding",
    "ParquetRows",
    "Table",
    "guess_task",
    "read_columns",
    "read_table",
    "say_label",
    "split_table",
]

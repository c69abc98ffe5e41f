"""Tables from files and frames; columns of any kind become numbers."""

from thresher.tables.frame import Column, Frame, is_frame, say_label
from thresher.tables.parquet import ParquetRows
from thresher.tables.table import Table, read_blocks, read_frame, read_table, split_table
from thresher.tables.targets import guess_task, read_targets
from thresher.tables.text_files import INPUT

__all__ = ["INPUT", "Column", "Frame", "ParquetRows", "Table", "guess_task", "is_frame", "read_blocks", "read_frame",
           "read_table", "read_targets", "say_label", "split_table"]  # fmt: skip

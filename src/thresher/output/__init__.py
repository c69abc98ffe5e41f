"""Output: files that are written whole or not at all, and lines and bars in a terminal."""

from thresher.output.terminal import Console, bar, clock
from thresher.output.writing import is_stream, make_folder, place_of, to_json, write_text, writing

__all__ = ["Console", "bar", "clock", "is_stream", "make_folder", "place_of", "to_json", "write_text", "writing"]

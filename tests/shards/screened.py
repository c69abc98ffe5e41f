"""Certified shards that screen their start rows in 8 bits, whatever the processor and however many rows pass."""

from thresher.loops import screen
from thresher.shards import Certified


class Screened(Certified):
    def __init__(self, recipe, neurons):
        super().__init__(recipe, neurons)
        self._rounded = screen.round_inputs(recipe.inputs, plainly=True)

    def _scan(self, first_step, expected):
        scan = super()._scan(first_step, expected)
        scan.rounded, scan.screen = self._rounded, "8 bits, plain loops"
        return scan

"""Certified shards that screen their start rows in whole numbers, whatever the processor and however many pass."""

from thresher.loops import screen
from thresher.loops.instructions.whole import PLAIN, Way
from thresher.shards import Certified


class Screened(Certified):
    BITS = 16

    def __init__(self, recipe, neurons):
        super().__init__(recipe, neurons)
        self._rounded = screen.round_inputs(recipe.inputs, Way(self.BITS, PLAIN))

    def _scan(self, first_step, expected):
        scan = super()._scan(first_step, expected)
        scan.rounded, scan.screen = self._rounded, screen.describe(self._rounded)
        return scan


class ScreenedInBytes(Screened):
    BITS = 8

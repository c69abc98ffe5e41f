"""Many fits choose, score and answer as they did when that was written down; see ``character.py``."""

import character
import pytest


@pytest.mark.thorough
@pytest.mark.parametrize("name", character.SMALL)
def test_small_fits_are_as_they_were(name):
    check(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", character.LARGE)
def test_large_fits_are_as_they_were(name):
    check(name)


def check(name):
    known = character.written()
    if known["machine"] != character.machine():
        pytest.skip(f"written down with {known['machine']}, this is {character.machine()}")
    found = [character.told(name, one) for one in character.differences(known["fits"][name], character.record(name))]
    assert not found, "\n".join(["", *found])


def test_every_fit_is_written_down_and_none_has_failed():
    fits = character.written()["fits"]
    assert list(fits) == list(character.FITS)
    assert not [name for name, seen in fits.items() if "error" in seen]
    assert len(character.SMALL) >= 40
    assert len(character.LARGE) >= 6


BEFORE = {"way": "exact", "rounds": 2, "ridge_": 0.1, "answers": [[100.0, 200.0, 1e-9], [0.1, 0.2, 0.3]]}


class TestTheComparison:
    def differences(self, **changes):
        return [*character.differences(BEFORE, BEFORE | changes)]

    def test_what_is_equal_has_no_difference(self):
        assert self.differences() == []

    def test_rounding_passes_in_units_of_the_spread(self):
        near = [[100.0 + 1e-5, 200.0 - 1e-5, 2e-9], [0.1, 0.2, 0.3]]
        assert self.differences(answers=near, ridge_=0.1 + 1e-8) == []

    def test_an_output_has_a_spread_of_its_own(self):
        far = [[100.0, 200.0, 1e-9], [0.1, 0.2, 0.3 + 1e-5]]
        assert self.differences(answers=far) == [("answers[1][2]", 0.3, 0.3 + 1e-5)]

    @pytest.mark.parametrize(
        "change",
        [{"way": "centres"}, {"rounds": 3}, {"ridge_": 0.1001}, {"ridge_": "nan"}, {"answers": [[100.0]]}, {"new": 1}],
    )
    def test_every_other_change_is_told_with_before_and_after(self, change):
        ((name, value),) = change.items()
        assert self.differences(**change) == [(name, BEFORE.get(name), value)]

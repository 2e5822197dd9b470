"""Each hand-made mutant still applies to the code, and names a test that exists."""

import re

import pytest

from tests.faults.mutants.patches import ROOT, Mutant, mutants
from tests.house.prose import offences


@pytest.mark.parametrize("mutant", list(mutants()), ids=lambda mutant: mutant.name)
def test_a_mutant_applies_to_the_code_and_names_an_existing_test(mutant: Mutant):
    assert mutant.apply(ROOT, "--check") == "", f"make {mutant.path.name} anew: the code has changed there"
    file, _, name = mutant.killed_by.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("mutant", list(mutants()), ids=lambda mutant: mutant.name)
def test_the_promise_that_a_mutant_breaks_is_told_in_one_plain_sentence(mutant: Mutant):
    told = f"# Mutants\n\n{mutant.breaks[0].upper()}{mutant.breaks[1:]}\n"
    assert mutant.breaks.count(".") == 1
    assert [one.rule for one in offences(mutant.path.with_suffix(".md"), told)] == []


def test_there_are_mutants_of_many_edges():
    assert len(list(mutants())) >= 20

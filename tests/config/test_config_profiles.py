"""The configuration names the profiles and dialects that there are."""

from typing import get_args

from gateway.config.sections import Dialect, Profile
from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES


def test_they_are_those_of_the_code() -> None:
    assert set(get_args(Profile)) == set(PROFILES)
    assert set(get_args(Dialect)) == set(DIALECTS)

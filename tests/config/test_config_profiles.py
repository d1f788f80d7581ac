"""The configuration names the profiles and dialects that there are."""

from typing import get_args

from gateway.config.choices import Dialect, PresetName, Profile
from gateway.config.presets import PRESETS
from gateway.config.schema import keys_of
from gateway.config.sections import UpstreamSection
from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES


def test_they_are_those_of_the_code() -> None:
    assert set(get_args(Profile)) == set(PROFILES)
    assert set(get_args(Dialect)) == set(DIALECTS)
    assert set(get_args(PresetName)) == {"", *PRESETS}


def test_presets_speak_of_keys_that_there_are() -> None:
    for preset in PRESETS.values():
        assert {*preset.values, *preset.needs} <= set(keys_of(UpstreamSection))
        assert {"base_url"} <= {*preset.values, *preset.needs}

"""Tables of tw_cli: which rows belong to which."""

from __future__ import annotations

from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.threeware.tw_cli import parse_controller


def test_a_table_of_an_enclosure_without_states_is_not_judged_by_the_one_above_it() -> None:
    """'show temp' has a temperature only; a heading that is unknown ends the table above it."""
    rule = "-" * 60
    text = (
        f"Encl    Status\n{rule}\n/c0/e0  OK\n\n"
        f"Fan     Status            State            StepSpeed  RPM    Identify\n{rule}\n"
        f"fan0    OK                OFF              1          2670   Off\n{{gap}}"
        f"TempSensor    Temperature\n{rule}\ntemp0         41C(105F)\n{{gap}}"
        f"Alarm   Mode\n{rule}\nalm0    MUTED\n\n"
    )
    for gap in ("\n", ""):
        found = {each.name: each for each in parse_controller(text.format(gap=gap), "c0").sensors}
        assert [*found] == ["e0", "e0 fan0", "e0 temp0"]
        assert (found["e0 temp0"].state, found["e0 temp0"].temperature_celsius) == (None, 41.0)


def test_a_supply_whose_voltage_is_not_ok_needs_attention() -> None:
    """Its own state may still be OK."""
    rule = "-" * 60
    text = (
        f"PowerSupply  Status         State  Voltage   Current   Identify\n{rule}\n"
        "pwrs0        OK             on     OK        OK        Off\n"
        "pwrs1        OK             on     FAIL      OK        Off\n\n"
    )
    one, two = parse_controller(text, "c0").sensors
    assert one.state is not None
    assert two.state is not None
    assert (one.state.health, two.state.health) == (ComponentHealth.OK, ComponentHealth.ATTENTION)

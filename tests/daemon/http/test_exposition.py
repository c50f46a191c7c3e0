"""The text of /metrics: always valid, always the published data, rendered only as needed."""

import math
import shutil
import subprocess
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from iowarden.collectors.model import Chunk, Family, Group, Labels, Sample
from iowarden.collectors.printable import name as safe_name
from iowarden.daemon.http import exposition
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot

READ = Family("iowarden_device_read_bytes_total", "counter", "Bytes read.")
FLIGHT = Family("iowarden_device_requests_in_flight", "gauge", "Requests the device works on.")
INFO = Family("iowarden_disk_info", "gauge", 'A disk\'s "identity";\nback\\slash.')


def disk(device: str) -> Labels:
    """Labels of one disk."""
    return (("device", device),)


def group(family: Family, *values: tuple[Labels, float]) -> Group:
    """Samples of one family."""
    return family, tuple((family.name, labels, value) for labels, value in values)


def chunk(name: str, version: int, *groups: Group) -> Chunk:
    """Build a chunk."""
    return Chunk(name, version, groups)


def fail(text: str) -> None:
    """Fail on any error report."""
    pytest.fail(text)


def rendered(*chunks: Chunk) -> str:
    """Text of the first scrape of these chunks."""
    fresh = Exposition(fail)
    fresh.publish(MetricsSnapshot(chunks))
    return fresh.render().decode()


def samples_of(text: str) -> dict[tuple[str, Labels], float]:
    """Return the samples that a parser reads from the text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_two_disks_are_shown_with_help_type_labels_and_values() -> None:
    """A counter and a gauge of sda and sdb, and our own failures at 0 from the start."""
    text = rendered(
        chunk(
            "diskstats",
            1,
            group(READ, (disk("sda"), 4096.0), (disk("sdb"), 0.0)),
            group(FLIGHT, (disk("sda"), 7)),
        )
    )
    assert text == (
        "# HELP iowarden_device_read_bytes_total Bytes read.\n"
        "# TYPE iowarden_device_read_bytes_total counter\n"
        'iowarden_device_read_bytes_total{device="sda"} 4096.0\n'
        'iowarden_device_read_bytes_total{device="sdb"} 0.0\n'
        "# HELP iowarden_device_requests_in_flight Requests the device works on.\n"
        "# TYPE iowarden_device_requests_in_flight gauge\n"
        'iowarden_device_requests_in_flight{device="sda"} 7.0\n'
        "# HELP iowarden_render_failures_total Metric families left out of /metrics because they"
        " could not be rendered.\n"
        "# TYPE iowarden_render_failures_total counter\n"
        "iowarden_render_failures_total 0.0\n"
    )


def test_a_family_without_samples_is_not_shown() -> None:
    """A machine without disks shows no header of a disk family."""
    assert "device_read" not in rendered(chunk("diskstats", 1, group(READ)))


def test_not_a_number_and_infinity_are_written_as_prometheus_reads_them() -> None:
    """Values that JSON does not support."""
    text = rendered(
        chunk(
            "x",
            1,
            group(FLIGHT, (disk("a"), math.nan), (disk("b"), math.inf), (disk("c"), -math.inf)),
        )
    )
    for line in ('{device="a"} NaN\n', '{device="b"} +Inf\n', '{device="c"} -Inf\n'):
        assert f"iowarden_device_requests_in_flight{line}" in text


def test_a_counter_without_total_is_shown_under_its_own_name() -> None:
    """smartctl_exporter has such counters; prometheus_client would rename them."""
    family = Family("smartctl_device_bytes_read", "counter", "Bytes.")
    assert "\nsmartctl_device_bytes_read 5.0\n" in rendered(chunk("s", 1, group(family, ((), 5.0))))


LABEL_VALUES = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n{}, \r\u2028'), max_size=20
)
VALUES = st.floats(allow_nan=False) | st.integers(0, 2**64)


@given(
    st.lists(
        st.tuples(LABEL_VALUES, VALUES), min_size=1, max_size=5, unique_by=lambda pair: pair[0]
    )
)
def test_whatever_a_device_calls_itself_the_text_reports_it(pairs: list[tuple[str, float]]) -> None:
    """Quotes, backslashes and any script are unchanged; control characters are escaped."""
    text = rendered(chunk("x", 1, group(INFO, *((disk(name), value) for name, value in pairs))))
    expected = {(INFO.name, disk(safe_name(name))): float(value) for name, value in pairs}
    assert samples_of(text).items() >= expected.items()


def test_undecodable_bytes_in_a_name_are_escaped() -> None:
    """A lone surrogate, from os.fsdecode of a byte that is not UTF-8, cannot be encoded."""
    label = "/mnt/\\\\xff\U0001f4be~" + safe_name("/mnt/\udcff\U0001f4be")[-8:]
    exposed = Exposition(fail)
    for version, value in enumerate((1.0, 2.0)):
        exposed.publish(
            MetricsSnapshot(
                (chunk("mounts", version, group(INFO, (disk("/mnt/\udcff\U0001f4be"), value))),)
            )
        )
        line = f'iowarden_disk_info{{device="{label}"}} {value}\n'
        assert line in exposed.render().decode()


def test_two_names_that_are_one_once_escaped_cost_one_series() -> None:
    """A drive may call itself as another is shown: the others are intact, and it is logged."""
    said: list[str] = []
    exposed = Exposition(said.append)
    names = ("sd\x1b", safe_name("sd\x1b"), "sdb")
    for version in range(2):
        found = group(INFO, *((disk(name), float(version)) for name in names))
        exposed.publish(MetricsSnapshot((chunk("disks", version, found),)))
        lines = exposed.render().decode().splitlines()
        assert sum(line.startswith("iowarden_disk_info{") for line in lines) == 2
        assert f'iowarden_disk_info{{device="sdb"}} {float(version)}' in lines
    (text,) = said
    assert "same labels" in text


DEVICES = st.sampled_from(["sda", "sd\\b", 'sd"c', "sd\nd", "sd\udc80", "sd e f"])
SETS = st.dictionaries(DEVICES, VALUES, max_size=4)


@given(st.lists(st.tuples(SETS, SETS, st.booleans()), min_size=1, max_size=6))
def test_a_scrape_after_any_history_reports_what_a_first_scrape_would(
    history: list[tuple[dict[str, float], dict[str, float], bool]],
) -> None:
    """Disks appear, disappear and change between scrapes; some snapshots are never scraped."""
    exposed = Exposition(fail)
    for version, (reads, flights, is_scraped) in enumerate(history):
        chunks = (
            chunk("one", version, group(READ, *((disk(name), reads[name]) for name in reads))),
            chunk(
                "two", version, group(FLIGHT, *((disk(name), flights[name]) for name in flights))
            ),
        )
        exposed.publish(MetricsSnapshot(chunks))
        if is_scraped:
            assert exposed.render().decode() == rendered(*chunks)


def test_of_a_family_of_many_series_a_scrape_reports_what_a_first_one_would() -> None:
    """The beginnings of its lines are not kept: they are those of the last scrape's text."""
    exposed = Exposition(fail)
    names = [f"{name} {number}" for number in range(100) for name in ('sd"c', "sd\nd", "größe")]
    for version, (many, other) in enumerate(((1.0, 1.0), (2.0, 1.0), (2.0, 7.5), (3.5, 7.5))):
        chunks = (
            chunk("two", int(other), group(FLIGHT, (disk("sda"), other))),
            chunk("one", version, group(READ, *((disk(name), many) for name in names))),
        )
        exposed.publish(MetricsSnapshot(chunks))
        assert exposed.render().decode() == rendered(*chunks)


def test_only_a_chunk_with_another_version_is_looked_at_again() -> None:
    """SMART values are published each second and change twice an hour."""
    exposed = Exposition(fail)
    exposed.publish(MetricsSnapshot((chunk("smart", 1, group(FLIGHT, (disk("sda"), 1.0))),)))
    exposed.render()
    exposed.publish(MetricsSnapshot((chunk("smart", 1, group(FLIGHT, (disk("sda"), 2.0))),)))
    assert '{device="sda"} 1.0' in exposed.render().decode()
    exposed.publish(MetricsSnapshot((chunk("smart", 2, group(FLIGHT, (disk("sda"), 2.0))),)))
    assert '{device="sda"} 2.0' in exposed.render().decode()


def test_a_family_that_changed_its_help_is_written_anew() -> None:
    """A reload may change the help text of the same series."""
    exposed = Exposition(fail)
    for version, words in enumerate(("Old words.", "New words.")):
        family = Family("iowarden_x", "gauge", words)
        exposed.publish(MetricsSnapshot((chunk("x", version, group(family, ((), 1.0))),)))
        assert f"# HELP iowarden_x {words}\n" in exposed.render().decode()


def test_the_same_snapshot_is_the_same_object() -> None:
    """So that a second scrape within the second costs nothing, compression included."""
    exposed = Exposition(fail)
    exposed.publish(MetricsSnapshot((chunk("x", 1, group(FLIGHT, (disk("sda"), 1.0))),)))
    assert exposed.render() is exposed.render()


def test_a_vanished_source_is_no_longer_shown() -> None:
    """The last disk of a controller was removed, its chunk is missing, and returns later."""
    exposed = Exposition(fail)
    with_disk = MetricsSnapshot((chunk("smart", 1, group(FLIGHT, (disk("sda"), 1.0))),))
    exposed.publish(with_disk)
    exposed.render()
    exposed.publish(MetricsSnapshot(()))
    assert "in_flight" not in exposed.render().decode()
    exposed.publish(with_disk)
    assert "in_flight" in exposed.render().decode()


def broken(samples: tuple[Sample, ...]) -> Group:
    """Build a family that cannot be rendered."""
    return READ, samples


@pytest.mark.parametrize(
    "group_",
    [
        broken(((READ.name, disk("sda"), "many"),)),  # type: ignore[arg-type]
        broken(((READ.name, disk("sda"), None),)),  # type: ignore[arg-type]
        broken((("iowarden_other", disk("sda"), 1.0),)),
        broken(((READ.name, (("device", 1),), 1.0),)),  # type: ignore[arg-type]
        broken(((READ.name, None, 1.0),)),  # type: ignore[arg-type]
    ],
    ids=["text", "none", "another name", "label no text", "no labels"],
)
def test_one_broken_family_leaves_the_others_and_is_reported_once(group_: Group) -> None:
    """A bug in one collector must not hide all other metrics."""
    told: list[str] = []
    exposed = Exposition(told.append)
    for version in range(3):
        flight = group(FLIGHT, (disk("sda"), float(version)))
        exposed.publish(MetricsSnapshot((chunk("bad", version, group_, flight),)))
        text = exposed.render().decode()
        assert READ.name not in text
        assert samples_of(text)[(FLIGHT.name, disk("sda"))] == version
        assert samples_of(text)[(exposition.FAILURES.name, ())] == version + 1
    assert len(told) == 1
    assert f"'{READ.name}' of chunk 'bad'" in told[0]


def test_a_family_in_two_chunks_is_shown_once_and_reported() -> None:
    """Prometheus's parser refuses a second TYPE line of a family."""
    told: list[str] = []
    exposed = Exposition(told.append)
    family = group(FLIGHT, (disk("sda"), 1.0))
    exposed.publish(MetricsSnapshot((chunk("one", 1, family), chunk("two", 1, family, family))))
    assert exposed.render().decode().count("# TYPE iowarden_device_requests_in_flight") == 1
    assert len(told) == 1


def test_scrapes_at_the_same_time_see_whole_snapshots() -> None:
    """Four threads scrape while the loop publishes: both families are of the same snapshot."""
    exposed = Exposition(fail)
    ages: list[set[float]] = []
    stop = threading.Event()

    def scrape() -> None:
        while not stop.is_set():
            values = samples_of(exposed.render().decode())
            del values[(exposition.FAILURES.name, ())]
            ages.append(set(values.values()))

    threads = [threading.Thread(target=scrape) for _ in range(4)]
    for thread in threads:
        thread.start()
    for version in range(300):
        value = float(version)
        exposed.publish(
            MetricsSnapshot(
                (
                    chunk("one", version, group(READ, (disk("sda"), value))),
                    chunk("two", version, group(FLIGHT, (disk("sda"), value))),
                )
            )
        )
    stop.set()
    for thread in threads:
        thread.join(10)
    assert max(len(values) for values in ages) <= 1


def test_families_that_cannot_be_made_are_left_out_and_reported_once() -> None:
    """They are made when they are first scraped: a mistake there must not cost the whole scrape."""
    problems: list[str] = []
    shown = Exposition(problems.append)

    def broken() -> tuple[Group, ...]:
        raise KeyError("sda")

    for version in (1, 2):
        bad = Chunk("bad", version, make=broken, names=("iowarden_bad",))
        shown.publish(MetricsSnapshot((bad, chunk("good", 1, group(READ, (disk("sda"), 1.0))))))
        assert READ.name in shown.render().decode()
    (problem,) = problems
    assert "KeyError: ('sda',)" in problem


def test_families_are_made_once_and_only_for_who_reads_them() -> None:
    """What no rule reads is made for a scrape, not each second."""
    made: list[str] = []

    def make() -> tuple[Group, ...]:
        made.append("made")
        return (group(READ, (disk("sda"), 1.0)), group(FLIGHT, (disk("sda"), 2.0)))

    lazy = Chunk("disks", 1, make=make, names=(READ.name, FLIGHT.name))
    assert list(lazy.of((INFO.name,))) == made == []
    assert [family for family, _ in lazy.of({FLIGHT.name, INFO.name})] == [FLIGHT]
    assert len(lazy.families) == 2
    assert made == ["made"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_report() -> None:
    """Prometheus's parser and linter accept names, help texts, escapes and special values."""
    text = rendered(
        chunk(
            "x",
            1,
            group(READ, (disk("sda"), 1e300), (disk('a"\\\n\r{b} \U0001f4be'), 2**63)),
            group(FLIGHT, (disk("sda"), math.nan), (disk("sdb"), math.inf)),
            group(INFO, ((("device", "sda"), ("serial", "")), 1.0)),
        ),
        chunk("y", 1, group(Family("iowarden_up", "gauge", ""), ((), 1.0))),
    )
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    lint = [line for line in checked.stderr.splitlines() if line]
    assert lint == ["iowarden_up no help text"], checked.stderr

"""scripts/linear.py: it covers every pattern, and every reader works. Without time limits."""

import pytest

import linear


def test_linear_covers_all_compiled_patterns() -> None:
    found = linear.patterns()
    assert {
        "adapters.terminology.placeholders.PLACEHOLDERS",
        "text.file_formats._TEXT_FORMATS[2]",
        "text.sentences._CLAUSE_ENDS[1]",
    } <= {*found}
    assert {*linear.AT_ONE_PLACE} <= {name.partition("[")[0] for name in found}


@pytest.mark.parametrize("name", linear.READERS)
def test_linear_readers_read_their_inputs(name: str) -> None:
    read, given = linear.READERS[name]
    for each in given.split("|"):
        text = linear.text_of(each, 60)
        assert len(text) == 60
        read(text)


def test_linear_measured_detects_quadratic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def reader(power: int) -> linear.Reader:
        def read(text: str) -> None:
            clock[0] += (len(text) / linear.LENGTH) ** power

        return read

    monkeypatch.setattr("time.process_time", lambda: clock[0])
    linear_time, quadratic = (linear.measured(reader(power), "a") for power in (1, 2))
    assert (round(quadratic.times), quadratic.is_linear) == (64, False)
    assert (round(linear_time.times), linear_time.is_linear) == (8, True)

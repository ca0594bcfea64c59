"""Tables that fit a terminal."""

from arcops.cli.tables import Column, table


def test_words_stand_left_and_numbers_right() -> None:
    lines = table([Column("name", ["c1", "c16"], left=True), Column("tok/s", ["7.5", "1,200"])], 80)
    assert lines == ["name  tok/s", "c1      7.5", "c16   1,200"]


def test_what_does_not_fit_is_left_out_the_least_wanted_first() -> None:
    columns = [Column("a", ["1" * 10]), Column("b", ["2" * 10], need=1), Column("c", ["3" * 10], need=2)]
    assert table(columns, 40)[0].split() == ["a", "b", "c"]
    assert table(columns, 30)[0].split() == ["a", "b"]
    assert table(columns, 12)[0].split() == ["a"]
    assert table(columns, 3)[0].split() == ["a"], "what has to be there is there"


def test_a_column_that_says_nothing_is_left_out_unless_it_has_to_be_there() -> None:
    columns = [Column("a", ["unknown"]), Column("b", ["unknown"], need=1), Column("c", ["-"], need=1)]
    assert table(columns, 80) == ["      a", "unknown"]
    mixed = [Column("a", ["1", "2"]), Column("b", ["unknown", "3"], need=1)]
    assert table(mixed, 80)[1].split() == ["1", "unknown"], "beside what is known the unknown is told"


def test_a_table_without_rows_is_its_titles() -> None:
    assert table([Column("a", []), Column("b", [])], 80) == ["a  b"]

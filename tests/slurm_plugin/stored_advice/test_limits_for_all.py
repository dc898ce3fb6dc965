"""Time limits of advice: one for all that ask, from the first run on; over made-up stores."""

import re

#: Limits that a job asks for, minutes; None: none.
MINUTES = (None, 3, 10, 15, 45, 60, 240, 1440, 10080)
WEEK = 10080


def asked(usual, minutes):
    options = {name: value for name, value in usual.options.items() if name != "time"}
    return usual._replace(options=options | ({"time": str(minutes)} if minutes else {}))


def test_the_limit_that_is_advised_does_not_depend_on_the_one_asked_for(jobs):
    for _, usual, advise in jobs:
        made = [advise(asked(usual, minutes)) for minutes in MINUTES]
        by_count = {}
        for advice in made:
            if line := advice.time_directive:
                by_count.setdefault(advice.nodes, set()).add(line)
        assert all(len(lines) == 1 for lines in by_count.values()), by_count


def test_there_is_a_limit_from_the_first_run_on(jobs):
    for table, usual, advise in jobs:
        advice = advise(asked(usual, WEEK))
        if any(row.unbounded for row in advice.rows) or table.starts:
            continue  # so many runs were cut off that nothing says how long they take
        assert re.fullmatch(r"#SBATCH --time=\S+", advice.time_directive.split(" --time-min")[0])
        few = table.runs < 10
        assert ("too few to be sure" in advice.time_text) is few
        assert (f"on {table.runs} run" in advice.time_text) or not few

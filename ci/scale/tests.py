"""The arithmetic of ci/scaling, on results made up."""

import unittest

from compare import grids, turned
from layout import interval
from program import Case, Result, result
import table

ALONE, SPLIT = Case(1, "threads", "1x1x1x1"), Case(1, "threads", "1x2x1x1")


class Scaling(unittest.TestCase):
    def test_grids_are_letters_or_written_out(self):
        self.assertEqual(grids(["d", "w"], [2]), ["1x2x1x1", "1x1x1x2"])
        self.assertEqual(grids(["n", "1x2x2x1", "n"], [2, 4]), ["2x1x1x1", "4x1x1x1", "1x2x2x1"])
        self.assertEqual(grids(["d"], [1]), [])
        for wrong in ("dh", "x", "1x2x2", "0x1x1x1", ""):
            with self.assertRaises(ValueError):
                grids([wrong], [2])

    def test_each_round_begins_with_another_case(self):
        self.assertEqual([turned([1, 2, 3], n) for n in (0, 1, 3)], [[1, 2, 3], [2, 3, 1], [1, 2, 3]])

    def test_speedups_are_those_of_a_round(self):
        # The machine is half as fast in the second round.
        rounds = [{ALONE: Result("ok", "", 4.0 * slow, 0.0, 0.0), SPLIT: Result("ok", "", 2.5 * slow, 0.1, 0.02)}
                  for slow in (1, 2, 1)]
        row = table.Row.of(SPLIT, ALONE, rounds)
        self.assertEqual(row.speedups, [1.6, 1.6, 1.6])
        self.assertEqual(row.cells(), ["1", "threads", "1x2x1x1", "2500.00", "1.60", "1.60-1.60", "10.0", "2.0"])
        one = table.Row.of(ALONE, ALONE, rounds)
        self.assertEqual(one.cells(), ["1", "threads", "1x1x1x1", "4000.00", "1.00", "-", "0.0", "0.0"])

    def test_a_case_that_failed_shows_how(self):
        row = table.Row.of(SPLIT, ALONE, [{ALONE: Result("ok", "", 4.0, 0.0, 0.0), SPLIT: Result("hang", "rank 1")}])
        self.assertEqual(row.cells()[3:], ["hang", "-", "-", "-", "-"])

    def test_yardsticks_are_ratios_or_times(self):
        rate = table.Yardstick("memory", 2, "GB/s", [20.0, 10.0, 20.0], [30.0, 18.0, 32.0])
        self.assertEqual(rate.cells(), ["memory", "2", "GB/s", "20.0", "30.0", "1.60", "1.50-1.80"])
        time = table.Yardstick("allreduce mpi", 2, "ms", [], [9.0, 8.0, 12.0])
        self.assertEqual(time.cells(), ["allreduce mpi", "2", "ms", "-", "9.0", "-", "8.0-12.0"])

    def test_few_rounds_have_their_extremes(self):
        for n in range(2, table.ENOUGH):
            self.assertEqual(interval(list(range(n)), lambda drawn: sorted(drawn)[len(drawn) // 2]), (0, n - 1))

    def test_a_table_row_is_a_result(self):
        row = {"outcome": "ok", "message": "", "step_s": "0.5", "halo_exposed_fraction": "0.1", "grad_exposed_fraction": ""}
        self.assertEqual(result(row), Result("ok", "", 0.5, 0.1, None))
        self.assertEqual(result({**row, "outcome": "wrong", "message": "w"}), Result("wrong", "w"))
        self.assertEqual(Case.of_line("cosmoflow net=2020 batch=1 grid=1x2x1x1 ranks=2 transport=threads"), SPLIT)


if __name__ == "__main__":
    unittest.main()

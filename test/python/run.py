"""All tests of this folder, against the server that PGHOST and so on name, in an empty
database.  Started by ../python.sh; ends with the counts that check.sh reads."""
import sys
import unittest
from pathlib import Path

import psycopg


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    with psycopg.connect(autocommit=True) as conn:
        conn.execute("CREATE EXTENSION flash_maxsim")
    tests = unittest.defaultTestLoader.discover(str(Path(__file__).parent))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result).run(tests)
    for test, reason in result.skipped:
        print(f"note: skipped {test}: {reason}")
    # a test fails once, however many of its subtests do
    failed = len({getattr(test, "test_case", test) for test, _ in result.failures + result.errors})
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

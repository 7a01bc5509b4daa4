"""Runs test modules of mpi4py's own suite and writes down what came of every test.

    mpirun -n P python outcomes.py FOLDER-OF-THE-SUITE FOLDER-FOR-OUTCOMES [--without-numpy] MODULE…

Each rank writes `FOLDER-FOR-OUTCOMES/RANK`: one line `OUTCOME TEST` for each test, where OUTCOME is
`start`, then `ok`, `skip`, `fail` or `expected`. A test that has only started was running when the
job ended. The job exits with 0 whatever the outcomes are.
"""

import os
import sys
import unittest


class Outcomes(unittest.TextTestResult):
    """Writes each outcome at once: what comes next may never return."""

    file = None

    def say(self, outcome, test):
        print(outcome, test.id(), file=self.file, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.say("start", test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("skip", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("fail", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.say("fail", test)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.say("expected", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.say("fail", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.say("fail", test)


def main():
    suite_folder, outcome_folder, *modules = sys.argv[1:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, suite_folder)
    absent = ["cupy", "numba"]
    if modules[0] == "--without-numpy":
        absent.append("numpy")
        del modules[0]
    for name in absent:
        sys.modules[name] = None
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    with open(os.path.join(outcome_folder, str(rank)), "w", encoding="utf-8") as Outcomes.file:
        unittest.TextTestRunner(resultclass=Outcomes, verbosity=0).run(suite)


if __name__ == "__main__":
    main()

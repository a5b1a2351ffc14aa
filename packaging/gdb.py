# SPDX-License-Identifier: BSD-3-Clause
"""What waits in a process that uses pml tm, for gdb with Python:

    gdb -p PID -x gdb.py -ex pml-tm          a running process
    gdb -x gdb.py -ex pml-tm PROGRAM CORE    a core file

It is what tm_look says: the process keeps the list while it waits in MPI.  Nothing is called in the
process, and no debugging information is needed.
"""

import os
import re
import shutil
import subprocess

import gdb

# In an installation this file is in PREFIX/share/pml_tm.
PREFIX = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Command(gdb.Command):
    """List receives, messages and sends that wait in pml tm, counters and last events."""

    def __init__(self):
        super().__init__("pml-tm", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        core = re.search(
            "^Local core dump file:\\s+`(.*)', file type",
            gdb.execute("info files", to_string=True),
            re.MULTILINE,
        )
        what = core.group(1) if core else str(gdb.selected_inferior().pid)
        tool = os.path.join(PREFIX, "bin", "tm_look")
        if not os.access(tool, os.X_OK):
            tool = shutil.which("tm_look")
        if tool is None:
            raise gdb.GdbError("tm_look is not in PATH")
        said = subprocess.run([tool, what], capture_output=True, text=True)
        gdb.write(said.stdout)
        if said.returncode != 0:
            raise gdb.GdbError(said.stderr.strip())


Command()

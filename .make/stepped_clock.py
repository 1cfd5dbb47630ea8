"""Run a command while somebody sets the clock of the machine: `python3 .make/stepped_clock.py make test`.

The wall clock of all processes of the command, servers too, shows the true time, an hour more, the true time, an hour
less, and so on, each for STEP_S seconds (20). The other clocks go on. Needs a C compiler (cc).

A library of its own, preloaded: libfaketime ends a jemalloc that asks for the time at its start (redis-server), takes
locks that a fork can leave locked, and answers EINVAL to the sleep of Python.
"""

# ruff: noqa: INP001, S603 - a developer's script, in no package, that runs the command it is given

import contextlib
import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset_s; /* a file of eight bytes that all processes share */

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("STEPPED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) offset_s = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && is_wall && offset_s) now->tv_sec += *offset_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec at;
    if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
    if (to) *to = at.tv_sec;
    return at.tv_sec;
}
"""
OFFSETS_S = (0, 3600, 0, -3600)


def main(command: list[str]) -> int:
    """Run `command` under the clock that steps; answers its exit status."""
    if not command or shutil.which("cc") is None:
        sys.stderr.write(
            "stepped_clock.py: give the command to run, such as make test; needs cc (apt-get install gcc)\n"
        )
        return 2
    with tempfile.TemporaryDirectory() as name:
        library, offset = Path(name, "stepped_clock.so"), Path(name, "offset")
        build = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(build, input=SOURCE, text=True, check=True)
        with offset.open("w+b", buffering=0) as file:
            file.write(struct.pack("q", 0))
            preloaded = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(offset)}
            run = subprocess.Popen(command, env={**os.environ, **preloaded})
            offsets_s = itertools.cycle(OFFSETS_S)
            while run.poll() is None:
                file.seek(0)
                file.write(struct.pack("q", next(offsets_s)))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(float(os.environ.get("STEP_S", "20")))
            return run.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

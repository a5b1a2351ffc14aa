# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the variables are for the caller
# The Debian packages that are needed, in one place for quickstart and .ci/run.

tm_packages_build=(
    autoconf automake build-essential libfabric-dev libhwloc-dev libibverbs-dev libopenmpi-dev
    libpmix-dev librdmacm-dev libtool openmpi-bin openssh-client pkg-config
)

# quickstart: a benchmark and plots.
tm_packages_quickstart=(gnuplot-nox netpipe-openmpi)

# test/run, all of it.
tm_packages_test=(
    binutils bubblewrap charliecloud clang clang-format debhelper debootstrap dpkg-dev
    environment-modules gcc-aarch64-linux-gnu gdb gnuplot-nox hpcc ibverbs-utils iproute2 lammps
    libc6-dev-arm64-cross libclang-rt-dev libcmocka-dev libfabric-bin mandoc
    munge netpipe-openmpi patchelf podman procps python3 python3-mpi4py python3-numpy
    python3-pyverbs qemu-user rdma-core rpm rsync shellcheck slurm-client slurmctld slurmd spin
    strace systemtap-sdt-dev util-linux valgrind zsh
)

# test/vm: emulated machines with a Soft-RoCE device.  Its tests are skipped without.
tm_packages_vm=(busybox-static ibverbs-utils iproute2 qemu-system-x86 rdma-core xz-utils)

# The same for RHEL, Fedora and their kin, where quickstart runs; NetPIPE is not among their
# packages.
tm_packages_build_rpm=(
    autoconf automake gcc hwloc-devel libfabric-devel libtool make openmpi-devel openssh-clients
    pkgconf-pkg-config pmix-devel rdma-core-devel
)
tm_packages_quickstart_rpm=(gawk gnuplot)

# tm_package_system: prints deb, rpm, or none: which kind of packages this system has.
tm_package_system()
{
    if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
        echo deb
    elif command -v rpm >/dev/null && command -v dnf >/dev/null; then
        echo rpm
    else
        echo none
    fi
}

# The packages that have the programs and files which tests name in needs=, in pairs.
tm_program_packages=(
    aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user bwrap:bubblewrap
    ch-run:charliecloud clang:clang clang-format:clang-format cmocka.h:libcmocka-dev gdb:gdb
    gnuplot:gnuplot-nox
    hpcc:hpcc ibv_devinfo:ibverbs-utils ip:iproute2 fi_info:libfabric-bin
    libfabric-1.15:libfabric-dev
    lmp:lammps mandoc:mandoc munged:munge NPopenmpi:netpipe-openmpi
    patchelf:patchelf pgrep:procps podman:podman
    python3:python3 qemu-system-x86_64:qemu-system-x86 readelf:binutils shellcheck:shellcheck
    slurmctld:slurmctld slurmd:slurmd srun:slurm-client sys/sdt.h:systemtap-sdt-dev
    debootstrap:debootstrap dpkg-source:dpkg-dev spin:spin ss:iproute2 valgrind:valgrind zsh:zsh
)

# tm_has_program NAME: is the program there, or the header, or libfabric-VERSION (or a later one)?
tm_has_program()
{
    local version=${1#*-}
    case $1 in
        libfabric-*)
            "${CC:-cc}" -fsyntax-only -x c - 2>/dev/null <<END
#include <rdma/fabric.h>
#if FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(${version/./, }))
#error too old
#endif
END
            ;;
        *.h) printf \
            '#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$1" |
            "${CC:-cc}" -fsyntax-only -x c - 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# tm_package_of NAME: the Debian package that has it.
tm_package_of()
{
    local pair
    for pair in "${tm_program_packages[@]}"; do
        [[ ${pair%%:*} != "$1" ]] || echo "${pair#*:}"
    done
}

# tm_missing_packages PACKAGE...: prints those that are not installed.
tm_missing_packages()
{
    local package state
    for package in "$@"; do
        case $(tm_package_system) in
            deb)
                state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
                [[ $state == installed ]] || echo "$package"
                ;;
            rpm) rpm -q --whatprovides "$package" >/dev/null 2>&1 || echo "$package" ;;
        esac
    done
}

# tm_install_packages PACKAGE...: installs what is missing, and touches neither apt (dnf) nor the
# network if nothing is.
tm_install_packages()
{
    local system command
    local -a missing as_root=()
    system=$(tm_package_system)
    if [[ $system == none ]]; then
        echo "This system has neither apt-get nor dnf. What these packages hold is needed: $*" >&2
        return 1
    fi
    mapfile -t missing < <(tm_missing_packages "$@")
    if ((${#missing[@]} == 0)); then
        return 0
    fi
    case $system in
        deb) command="apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends" ;;
        rpm) command="dnf install -q -y" ;;
    esac
    command+=" ${missing[*]}"
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "These packages are needed: ${missing[*]}" >&2
            echo "Neither are you root nor is there sudo. Have an administrator run:" >&2
            echo "  $command" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    echo "Installing: ${missing[*]}"
    if ! "${as_root[@]}" sh -c "$command" </dev/null; then
        echo "could not be installed: ${missing[*]}" >&2
        return 1
    fi
}

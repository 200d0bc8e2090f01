# Sourced by the other scripts: the checkout's own virtual environment, and steps that show their progress.
#
#   environment EXTRA...   makes .venv with the package (editable) and the extras named, if it is not there yet
#   simulated              whether the simulated GPU can be used; says what to install where it cannot
#   step NAME COMMAND...   runs a command as one numbered step, with its time; fails as the command does
#
# What is outside of .venv is installed only where the user asks for it, with --install, as root on Debian and Ubuntu:
#
#   cxx                    g++, for the simulated GPU
#   other_mpi              Open MPI beside the MPICH of the environment
#   other_targets          Clang, and a compiler for AArch64 with an emulator
#   models                 llvm-mca, with LLVM's models of processors
#   browser                Chromium, which shows the pictures of schedules

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"
cd "$root" || exit 1

# Caches go to the home directory, or into .venv where there is none that can be written.
if [ -z "${HOME:-}" ] || [ ! -d "$HOME" ] || [ ! -w "$HOME" ]; then
    export HOME="$venv/home"
fi
unset PYTHONPATH PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1
# Tests start many processes: each finds the modules compiled, and nothing is written beside the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$venv/pycache"

steps=0

step() {
    local name=$1 start end status=0
    shift
    steps=$((steps + 1))
    printf '[%d] %s\n' "$steps" "$name"
    start=$(date +%s%N)
    "$@" || status=$?
    end=$(date +%s%N)
    printf '[%d] %s: %s in %d.%01d s\n' "$steps" "$name" "$([ "$status" = 0 ] && echo done || echo FAILED)" \
        $(((end - start) / 1000000000)) $(((end - start) / 100000000 % 10))
    return "$status"
}

environment() {
    local python stamp
    python=$(newest_python) || return 1
    need_compiler || return 1
    stamp="$venv/installed-$(fingerprint "$python" "$@")"
    if [ -e "$stamp" ] && "$venv/bin/python" -c 'import tiramisu_py' 2>/dev/null; then
        return 0
    fi
    mkdir -p "$venv" "$HOME"
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 ||
        step "virtual environment with $("$python" --version)" make_venv "$python" || return 1
    step "install tiramisu_py with its extras: $*" install_package "$@" || return 1
    : >"$stamp"
}

# What the environment depends on: this interpreter, these extras, pyproject.toml.
fingerprint() {
    { printf '%s\n' "$@" "$root"; "$1" --version; cat "$root/pyproject.toml"; } | sha256sum | cut -c1-16
}

newest_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "tiramisu_py needs Python 3.11 or newer, and found none (PYTHON=... names one): apt-get install python3-venv" >&2
    return 1
}

need_compiler() {
    command -v "${CC:-gcc}" >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 && return 0
    echo "tiramisu_py needs a C compiler, and found neither gcc nor clang: apt-get install gcc libc6-dev make" >&2
    return 1
}

# Kernels are compiled for the simulator as C++; everything else needs a C compiler only.
simulated() {
    cxx_works && return 0
    echo "the simulated GPU needs a C++ compiler, and found neither g++ nor clang++: apt-get install g++, or give --install" >&2
    return 1
}

cxx() {
    cxx_works || installed "g++, for the simulated GPU" apt_install g++
}

# Installs packages for all users, as root on Debian; says so where it cannot.
installed() {
    local name=$1
    shift
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "--install: only root on Debian or Ubuntu can install $name"
    else
        step "install $name" "$@" || echo "not all of it can be installed; what needs it is skipped: $name"
    fi
}

cxx_works() {
    local candidate
    for candidate in ${CXX:+"$CXX"} g++ clang++; do
        if echo '#include <tuple>' | "$candidate" -std=c++17 -x c++ -fsyntax-only - >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

# Tests run with both implementations of MPI where both are there.
other_mpi() {
    command -v mpicc >/dev/null 2>&1 || installed "Open MPI, to test with it too" apt_install openmpi-bin libopenmpi-dev
}

# Generated code is tested with a second compiler, and as code for another processor, which an emulator runs.
other_targets() {
    { command -v clang && command -v aarch64-linux-gnu-gcc && command -v qemu-aarch64; } >/dev/null 2>&1 ||
        installed "Clang, and GCC and QEMU for AArch64, to test with them too" install_targets
}

# Hot loops are estimated on models of processors; those of LLVM before 17 are of other processors.
models() {
    local candidate
    for candidate in llvm-mca-{40..17}; do
        command -v "$candidate" >/dev/null 2>&1 && return 0
    done
    installed "llvm-mca, to estimate hot loops" install_models
}

# Pictures of schedules are tested in a browser without a screen, and the guide's are taken there.
browser() {
    local candidate
    for candidate in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$candidate" >/dev/null 2>&1 && return 0
    done
    installed "Chromium, to look at pictures of schedules" apt_install chromium fonts-dejavu-core
}

install_models() {
    apt_install llvm-19 || apt_install llvm
}

# On AArch64 itself there is nothing to cross.
install_targets() {
    local status=0
    command -v clang >/dev/null 2>&1 || apt_install clang libomp-dev libclang-rt-dev || apt_install clang libomp-dev || status=1
    if [ "$(uname -m)" != aarch64 ]; then
        apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user || status=1
    fi
    return "$status"
}

apt_updated=

apt_install() {
    if [ -z "$apt_updated" ]; then
        apt-get update >/dev/null 2>&1 || return 1
        apt_updated=yes
    fi
    apt-get install -y --no-install-recommends --no-remove "$@" >/dev/null 2>&1
}

# Debian ships venv without pip unless python3-venv is installed: then the system's pip installs one, if there is any.
make_venv() {
    rm -rf "$venv"/bin "$venv"/lib* "$venv"/include "$venv"/pyvenv.cfg "$venv"/installed-*
    "$1" -m venv "$venv" >/dev/null 2>&1 && return 0
    "$1" -m venv --without-pip "$venv" >/dev/null 2>&1 &&
        "$1" -m pip --python "$venv/bin/python" install --quiet pip 2>/dev/null && return 0
    echo "$1 cannot make a virtual environment with pip: apt-get install python3-venv" >&2
    return 1
}

install_package() {
    local extras
    extras=$(IFS=,; echo "$*")
    "$venv/bin/python" -m pip install --quiet --editable "$root[$extras]"
}

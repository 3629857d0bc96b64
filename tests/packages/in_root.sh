#!/usr/bin/env bash
# Runs as root in a bare Debian, where /src has the packages of sinew, the wheel and programs. Prints a line for each
# check: passed or failed, and skipped with the reason. Exit code 1 if one failed.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
work=/root/work
bad=0
mkdir -p $work
cd $work || exit 1

# check NAME COMMAND..: passes if the command ends with exit code 0
check() {
  local name=$1 status=0
  shift
  "$@" >$work/said 2>&1 || status=$?
  if [ $status -eq 0 ]; then
    echo "passed $name"
    return
  fi
  bad=1
  echo "failed $name: exit code $status"
  sed 's/^/    /' $work/said | tail -n 40 >&2
}

# says PATTERN COMMAND..: the command succeeds, and a line of its output matches
says() {
  local pattern=$1 output
  shift
  output=$("$@" 2>&1) || { echo "$output"; return 1; }
  grep -qE -- "$pattern" <<<"$output" && return
  echo "expected a line that matches '$pattern', found: $output"
  return 1
}

apt() { apt-get -q -o Dpkg::Use-Pty=0 "$@"; }
install() { apt install --yes --no-install-recommends "$@"; }
sinew_packages() { dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' '*sinew*' 2>/dev/null | awk '$3 == "installed"'; }
versions_are() { [ "$(sinew_packages | awk '{ sub(/.*-/, "", $2); print $2 }' | sort -u)" = "$1" ] || { sinew_packages; return 1; }; }

# no_file_left: nothing of sinew's is on this disk, outside of what this test brings
no_file_left() {
  local left
  left=$(find / -xdev \( -path /src -o -path /proc -o -path /root -o -path /sys -o -path /var/cache/apt \) -prune -o -iname '*sinew*' -print)
  [ -z "$left" ] || { echo "$left"; return 1; }
  ! ldconfig -p | grep sinew
}

# runs_of_3 FOLDER: a program of the README, run by its commands; each of 3 ranks has the sum
runs_of_3() {
  local output
  cp -r "$1" "$work/"
  output=$(cd "$work/$(basename "$1")" && bash run.sh 2>&1) || { echo "$output"; return 1; }
  [ "$(grep -oE 'rank [012] of 3: 3(\.0)?$' <<<"$output" | sort -u | wc -l)" = 3 ] && return
  echo "expected the sum 3 of each of 3 ranks, found: $output"
  return 1
}

# measures COMMAND..: a run of sinew-bench that prints figures, and that found every result right
measures() {
  local output
  output=$("$@" 2>&1) || { echo "$output"; return 1; }
  grep -qE '^(\[0\])? +8 +2 +f32 ' <<<"$output" && grep -q 'all_reduce on 2 ranks' <<<"$output" &&
    grep -q 'Out of bounds values : 0 OK' <<<"$output" && return
  echo "expected figures of 2 ranks and no wrong value, found: $output"
  return 1
}

echo "Acquire::Languages none;" >/etc/apt/apt.conf.d/90languages
check "apt-get update" apt update

# ---- the Debian packages
check "packages of the version before are installed" install /src/previous/*.deb
check "they have that version" versions_are 0
check "apt upgrades to this version" install /src/debian/*.deb
check "all packages have this version" versions_are 1
check "files of the version before are gone" bash -c '! find /usr/share/doc -name of_the_version_before | grep .'
check "the loader knows the libraries" says libsinew_core ldconfig -p
check "no library is missing a library" bash -euc '
  ls /usr/bin/sinew-run /usr/lib/sinew-modules/sinew_ucx.so
  for file in /usr/bin/sinew-* /usr/lib/libsinew* /usr/lib/sinew-modules/*.so; do
    if ldd $file | grep "not found"; then echo "$file"; exit 1; fi
  done'
check "sinew-info names its version" says '^commit: ' sinew-info --version
check "sinew-bench runs under mpirun" measures mpirun -n 2 sinew-bench all_reduce -b 8 -e 4KiB -f 8
check "it measures MPI beside it" measures mpirun -n 2 sinew-bench all_reduce -b 8 -e 1KiB -f 8 --peer mpi
for transport in shm tcp ucx ofi; do
  check "sinew-bench over $transport" measures sinew-run -n 2 sinew-bench all_reduce -b 8 -e 4KiB -f 8 --transport $transport
done
check "sinew-info says why nccl cannot be used" says 'nccl.*(driver|accelerator|libcuda)' sinew-info transports
check "sinew-sim simulates" says 'ring' sinew-sim all_reduce 1MiB --cluster dgx-h100x2
check "a program in C++ by pkg-config" bash -euc '
  g++ /src/programs/all_reduce.cpp -o by_pkg_config $(pkg-config --cflags --libs sinew)
  sinew-run -n 2 ./by_pkg_config'
check "a program in C++ by CMake" bash -euc '
  cmake -S /src/programs -B by_cmake -D EXPECTED_VERSION=$(sinew-info --version | sed -n "s/^sinew //p")
  cmake --build by_cmake
  sinew-run -n 2 by_cmake/consumer $(sinew-info --version | sed -n "s/^sinew //p")'
check "a program in C by pkg-config" bash -euc '
  gcc -std=c11 /src/programs/c/all_reduce.c -o in_c $(pkg-config --cflags --libs sinew-c)
  sinew-run -n 2 ./in_c'
check "the README's program in C++" runs_of_3 /src/readme/cpp
check "the manual pages are compressed roff" bash -euc 'for tool in run bench info sim; do zcat /usr/share/man/man1/sinew-$tool.1.gz | grep -q "^.SH NAME"; done'
check "bash completes" bash -euc '
  source /usr/share/bash-completion/completions/sinew-run
  COMP_WORDS=(sinew-run --on-failure c) COMP_CWORD=2
  _sinew_run
  [ "${COMPREPLY[*]}" = continue ]'
check "Python knows the package and its version" says '^[0-9.]+$' python3 -c 'import sinew; print(sinew.__version__)'
check "Python finds the libraries" python3 -c 'import sinew._libraries as l; l.load()'
mapfile -t names < <(sinew_packages | awk '{ print $1 }')
check "apt purges all packages" apt purge --yes "${names[@]}"
check "nothing is left of them" no_file_left

# ---- the container's steps, which a container would run in an image of the same Debian
check "the steps of the Containerfile" bash /src/containerfile.sh /src/debian
check "a job in the container" measures sinew-run -n 2 sinew-bench all_reduce -b 8 -e 4KiB -f 8
mapfile -t names < <(sinew_packages | awk '{ print $1 }')
check "apt purges them and Open MPI, and what only they needed" apt purge --yes --autoremove "${names[@]}" openmpi-bin
check "nothing is left of the container's packages" no_file_left

# ---- the wheel
venv=$work/venv
check "pip installs the wheel in an environment of its own" bash -euc "
  python3 -m venv $venv
  $venv/bin/pip install --quiet --no-index --no-deps /src/wheel/sinew-*.whl"
export PATH=$venv/bin:$PATH
check "the wheel's programs say their version" says '^commit: ' sinew-bench --version
for transport in shm tcp; do
  check "the wheel's sinew-bench over $transport" measures sinew-run -n 2 sinew-bench all_reduce -b 8 -e 4KiB -f 8 --transport $transport
done
check "the wheel says what ucx misses" says 'libuc[pst].so.0.*apt-get install libucx0' sinew-info transports
check "the wheel says what ofi misses" says 'libfabric.so.1.*apt-get install libfabric1' sinew-info transports
check "the wheel says why nccl cannot be used" says 'nccl.*(driver|accelerator|libcuda)' sinew-info transports
check "the wheel says why cuda_ipc cannot be used" says 'cuda_ipc.*(driver|accelerator|libcuda)' sinew-info transports
check "apt-get update, whose lists the container's steps have removed" apt update
check "the libraries that the modules need are installed" install libucx0 libfabric1 openmpi-bin
for transport in ucx ofi; do
  check "the wheel's sinew-bench over $transport" measures sinew-run -n 2 sinew-bench all_reduce -b 8 -e 4KiB -f 8 --transport $transport
done
check "the wheel's sinew-bench under mpirun" measures mpirun -n 2 sinew-bench all_reduce -b 8 -e 4KiB -f 8
check "the wheel names its licence and has its text" bash -euc "
  $venv/bin/pip show sinew | grep -qx 'License: Apache-2.0'
  $venv/bin/pip show --files sinew | grep -q 'dist-info/licenses/LICENSE'"
check "Python imports the wheel's package" says '^[0-9.]+$' python3 -c 'import sinew; import sinew._libraries as l; l.load(); print(sinew.__version__)'
check "pip installs NumPy" "$venv/bin/pip" install --quiet --no-index --no-deps --find-links /src/wheel numpy
check "a program in Python on 3 ranks" sinew-run -n 3 "$venv/bin/python" /src/programs/python/all_reduce.py
check "the README's program in Python" runs_of_3 /src/readme/python
check "pip uninstalls the wheel" "$venv/bin/pip" uninstall --yes --quiet sinew
check "nothing is left of the wheel" bash -c "! find $venv -iname '*sinew*' | grep ."
exit $bad

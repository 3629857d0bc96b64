# Hosts of one machine for engines that want real ones; source it. Needs root and Debian's iproute2.
#
#   enter_own_machine SCRIPT ARGUMENT..  runs SCRIPT anew, in mount, process and network namespaces of its own, and ends as it does;
#                            returns at once within them. All that SCRIPT has started and mounted ends with it, even if it is killed.
#                            Exit code 77, with the reason, where this cannot be
#   start_hosts NAME..       hosts 0, 1, .., each with a network, a host name, /dev/shm and /tmp of its own; names have addresses
#                            A name may have others behind it, with spaces between
#   in_node NUMBER COMMAND.. runs on a host. "${enter[@]}" "${holder_of[NUMBER]}" COMMAND.. is the same without a function
#   $said                    the file for what a job prints
#   says COUNT PATTERN       so many lines of $said match this, or the test fails
#   wrong REASON             the test fails
#
# Nothing is written outside $engines_home, which is in /run, a file system of this machine's own.

engines_home=/run/engines
said=$engines_home/said

show_logs() { tail -n 8 "$engines_home"/*.log >&2 2>/dev/null || true; }

wrong() {
  echo "$(basename "$0"): $1" >&2
  if [ -e "$said" ]; then sed 's/^/  said: /' "$said" >&2; fi
  show_logs
  exit 1
}

says() {
  local found
  found=$(grep -cE -- "$2" "$said" || true)
  [ "$found" -eq "$1" ] || wrong "$found lines match '$2': expected $1"
}

skip() { echo "skipped: $*"; exit 77; }

# need_command COMMAND PACKAGE: of Debian
need_command() { command -v "$1" >/dev/null || skip "$1 is missing; Debian's package $2 has it"; }

enter_own_machine() {
  local status=0
  if [ "${engines_machine:-}" = own ]; then return; fi
  [ "$(id -u)" -eq 0 ] || skip "only root can make hosts of its own"
  need_command ip iproute2
  unshare -m -n -p -f --mount-proc true 2>/dev/null || skip "no mount, network and process namespaces here"
  engines_machine=own unshare -m -n -u -p -f --kill-child --mount-proc "$BASH" "$@" || status=$?
  exit $status
}

# private_folder FOLDER: an empty file system there, but the project stays where it is
private_folder() {
  local project
  project=$(realpath "$(dirname -- "${BASH_SOURCE[0]}")/../..")
  case $project/ in
    "$1"/*)
      mkdir -p "$engines_home/project"
      mount --bind "$project" "$engines_home/project"
      mount -t tmpfs tmpfs "$1"
      mkdir -p "$project"
      mount --bind "$engines_home/project" "$project"
      ;;
    *) mount -t tmpfs tmpfs "$1" ;;
  esac
  chmod 1777 "$1"
}

# make_node NODE HOST: a process that holds the namespaces of a node. slurmd wants /sys/fs/cgroup, which a file system of the
# network's own devices in /sys hides.
holder_of=()
make_node() {
  local tries
  nsenter --net="/run/netns/$name-$1" unshare -m -u "$BASH" -euc '
    source "$0"
    hostname "$1"
    mkdir -p "$engines_home/cgroup"
    if [ -d /sys/fs/cgroup ]; then mount --rbind /sys/fs/cgroup "$engines_home/cgroup"; fi
    mount -t sysfs sysfs /sys
    mount --rbind "$engines_home/cgroup" /sys/fs/cgroup
    private_folder /dev/shm
    private_folder /tmp
    exec sleep infinity' "${BASH_SOURCE[0]}" "$2" &
  holder_of[$1]=$!
  for ((tries = 0; tries < 100; ++tries)); do
    if [ "$(cat "/proc/${holder_of[$1]}/comm")" = sleep ]; then return; fi
    sleep 0.05
  done
  echo "the host $2 could not be made" >&2
  return 1
}

enter=(nsenter -n -u -m -t)
in_node() {
  local node=$1
  shift
  "${enter[@]}" "${holder_of[$node]}" "$@"
}

start_hosts() {
  local host
  local -a names=("$@")
  mount -t tmpfs tmpfs /run
  mkdir -p "$engines_home" /run/lock
  chmod 755 /run "$engines_home"
  # shellcheck source=tests/hosts/namespaces.sh
  source "$(dirname -- "${BASH_SOURCE[0]}")/../hosts/namespaces.sh"
  make_hosts ${#names[@]}
  {
    echo "127.0.0.1 localhost"
    for host in "${!names[@]}"; do echo "$(address "$host") ${names[host]}"; done
  } >"$engines_home/hosts"
  mount --bind "$engines_home/hosts" /etc/hosts
  for host in "${!names[@]}"; do make_node "$host" "${names[host]%% *}"; done
}

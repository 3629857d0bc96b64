# Installs the packages of cmake/packages.txt that are missing. When nothing is missing, the network is not touched.

packages_of() {
  awk -v groups=" $* " '!/^#/ && NF >= 2 && index(groups, " " $1 " ") { print $2 }' cmake/packages.txt | sort -u
}

# python_packages GROUP: as pip wants them, with versions
python_packages() { awk -v group="$1" '!/^#/ && $1 == group { print $2 }' cmake/python_packages.txt; }

# make_environment FOLDER GROUP: a Python environment in FOLDER, with the packages of that group and what they need
make_environment() {
  local folder=$1 wanted
  wanted=$(python_packages "$2" | paste -sd ' ')
  if [ "$(cat "$folder/packages" 2>/dev/null)" = "$wanted" ]; then return; fi
  say "installing into $folder: $wanted"
  rm -rf "$folder"
  # shellcheck disable=SC2086
  python3 -m venv "$folder" && "$folder/bin/python" -m pip install --quiet $wanted >&2 || return 1
  echo "$wanted" >"$folder/packages"
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# need_packages GROUP..
need_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian: expecting to find what these packages hold: $(packages_of "$@" | xargs)"
    return
  fi
  for package in $(packages_of "$@"); do
    if ! is_installed "$package"; then missing+=("$package"); fi
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      die "these packages are missing, and neither root nor sudo is here to install them: ${missing[*]}"
    fi
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} missing packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  local log
  log=$(mktemp)
  if ! "${apt[@]}" update >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    say "apt-get update ended with an error (above); going on with the lists that are there"
  fi
  if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get could not install: ${missing[*]}; its last lines are above"
  fi
  rm -f "$log"
}

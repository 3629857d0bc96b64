# Small things that all jobs use.

# With minutes and seconds since the start.
say() { printf '== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }

# Wrong use is exit code 2, as in the tools.
die() {
  printf './run: %s\n' "$*" >&2
  exit 2
}

# As many compilers at once as there are cores, and as 1.5 GiB each fit into the memory.
jobs_that_fit() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
  if [ "$by_memory" -lt "$cores" ]; then cores=$by_memory; fi
  if [ "$cores" -lt 1 ]; then cores=1; fi
  echo "$cores"
}

# The files under version control or new, but not ignored; without git all outside of build/.
source_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
      if [ -e "$file" ] && ! [ -L "$file" ]; then echo "$file"; fi
    done
  else
    local pattern
    for pattern in "$@"; do find . -path ./build -prune -o -type f -name "$pattern" -printf '%P\n'; done
  fi | sort -u
}

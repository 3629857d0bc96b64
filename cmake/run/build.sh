# configure and build

# The environment build/python, with which the extension for Python is built and tested. What cannot be installed is said, and
# the build goes on without the extension.
make_python_environment() {
  local python=build/python/bin/python stamp=build/python/packages
  mapfile -t packages < <(awk '!/^#/ && $1 == "python" { print $2 }' cmake/python_packages.txt)
  if [ "$(cat "$stamp" 2>/dev/null)" = "${packages[*]}" ]; then return; fi
  say "installing what the extension for Python needs into build/python"
  if python3 -m venv build/python && "$python" -m pip install --quiet --no-deps "${packages[@]}" >&2; then
    echo "${packages[*]}" >"$stamp"
  else
    say "no extension for Python: the packages of the group python in cmake/python_packages.txt cannot be installed"
  fi
}

# configure PRESET [cmake options]: quiet when it works. Without options everything is built, whatever an earlier job of
# this folder left out.
configure() {
  local preset=$1 log=build/$1/configure.log options=(-DSINEW_BUILD_TESTS=ON)
  shift
  mkdir -p "$(dirname "$log")"
  if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  if ! cmake --preset "$preset" "${options[@]}" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    say "configuring the preset $preset ended with the error above"
    return 1
  fi
  sed -n '/optional parts:/,/Configuring done/ { /Configuring done/d; s/^-- //; p }' "$log" >&2
}

# compile PRESET [TARGET..]
compile() {
  local preset=$1
  shift
  local targets=()
  if [ $# -gt 0 ]; then targets=(--target "$@"); fi
  # ccache needs these settings to work with precompiled headers. With CCACHE_DEPEND it takes the list of headers from the
  # compiler instead of running the preprocessor itself.
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
  say "building $preset${*:+: $*}"
  # On a terminal this is one line that changes.
  NINJA_STATUS='[%f of %t done, %es] ' cmake --build "build/$preset" -j "$(jobs_that_fit)" "${targets[@]}" >&2
}

run_build() {
  local preset=${1:-release}
  case $preset in
    release | dev | tsan) ;;
    *) die "there is no preset '$preset'; expected release, dev or tsan" ;;
  esac
  need_packages bench build $([ "$preset" = release ] || echo sanitize)
  if [ "$preset" = release ]; then make_python_environment; fi
  configure "$preset"
  compile "$preset"
  say "programs are in build/$preset/bin"
}

# ./run package: the Python package, built as pip builds it, and used in environments of its own in build/package.

# package_environment NAME [FOLDER]: a fresh environment build/package/NAME, which also sees the packages in FOLDER.
package_environment() {
  python3 -m venv "build/package/$1"
  if [ -n "${2-}" ]; then
    echo "$2" >"$(echo "build/package/$1"/lib/python3*/site-packages)/other_packages.pth"
  fi
}

# package_checks NAME CASES: installs the wheel into the environment and runs these cases of tests/python/installed.py there.
package_checks() {
  local python=$PWD/build/package/$1/bin/python
  "$python" -m pip install --quiet --no-deps --no-index build/package/*.whl
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/tests/python "$python" -m unittest "installed.$2" >&2
}

run_package() {
  local torch=
  case ${1-} in
    '') ;;
    --torch)
      torch=$(realpath -- "${2-}") && [ -e "$torch/torch/version.py" ] ||
        die "package: --torch '${2-}': expected a folder site-packages that has a torch"
      ;;
    *) die "package: there is no option '$1'; expected --torch FOLDER" ;;
  esac
  need_packages bench package
  rm -rf build/package
  mkdir -p build/package
  package_environment builder "$torch"
  say "building the package"
  # CXX of two words here, and CMAKE_CXX_COMPILER_LAUNCHER in ./run torch: users set either.
  CXX="ccache c++" CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 \
    CMAKE_BUILD_PARALLEL_LEVEL=$(jobs_that_fit) \
    build/package/builder/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/package . >&2
  say "using it in an environment without torch"
  package_environment without_torch
  package_checks without_torch Package
  if [ -z "$torch" ]; then
    say "not used with torch: --torch FOLDER names a site-packages that has one"
    return
  fi
  say "using it in another environment with torch $(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch/torch/version.py")"
  package_environment with_torch "$torch"
  CXX="ccache c++" package_checks with_torch WithTorch
}

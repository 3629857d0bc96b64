# ./run docs: the documentation site in build/docs. mkdocs makes it of docs/ and of pages that cmake/docs makes from the code.

run_docs() {
  [ $# -eq 0 ] || die "docs: there is no option '$1'; docs takes none"
  need_packages docs
  make_environment build/site docs
  say "making the site"
  # --quiet would hide the warnings that --strict makes errors of. The variable silences a notice about later versions.
  NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1 build/site/bin/python -m mkdocs build --strict --config-file cmake/docs/mkdocs.yml >&2
  say "the site is in build/docs: open build/docs/index.html"
}

#!/usr/bin/env bash
# The control of `./run lint`: each check must find what is planted here, and nothing in a clean file.
#   lint_control.sh SOURCE-FOLDER WORK-FOLDER
set -uo pipefail
source=$1 work=$2 bad=0
rm -rf "$work"
mkdir -p "$work/core" "$work/transports/tcp" "$work/cmake" "$work/build"
cp -r "$source/cmake/lint" "$source/cmake/run" "$work/cmake/"
cp "$source/.clang-format" "$source/run" "$work/"
cp -r "$source/.ci" "$work/"
cd "$work" || exit 1
export GIT_CEILING_DIRECTORIES=$PWD/.. GIT_DIR=/nonexistent
for part in cmake/run/*.sh; do source "$part"; done

# expect CHECK ok|FRAGMENT FILE < content
expect() {
  local check=$1 wanted=$2 file=$3 output status=0
  cat >"$file"
  output=$("lint_$check" 2>&1) || status=$?
  rm "$file"
  if [ "$wanted" = ok ] && [ $status -eq 0 ]; then return; fi
  if [ "$wanted" != ok ] && [ $status -ne 0 ] && grep -qF "$wanted" <<<"$output"; then return; fi
  echo "lint $check: expected '$wanted' about $file, found exit code $status and: $output"
  bad=1
}

expect layout ok core/a.cpp <<<'int a = 0;'
expect layout 'core/a.cpp:1: not as clang-format' core/a.cpp <<<'int  a=0;'
expect includes ok core/a.hpp <<<$'#include <unistd.h>\n#include <vector>\n#include <fmt/format.h>\n#include <sinew/core/b.hpp>'
expect includes ok transports/tcp/a.cpp <<<'#include <openssl/ssl.h>'
expect includes 'openssl/ssl.h belongs into a .cpp file' transports/tcp/a.hpp <<<'#include <openssl/ssl.h>'
expect includes 'nlohmann/json.hpp may be included only by' core/a.cpp <<<'#include <nlohmann/json.hpp>'
expect includes 'curl/curl.h is in no row' core/a.cpp <<<'#include <curl/curl.h>'
expect includes 'sinew/collectives/world.hpp may be included only by' core/a.cpp <<<'#include <sinew/collectives/world.hpp>'
expect includes 'sinew/parallel/mesh/mesh.hpp may be included only by' core/a.cpp <<<'#include <sinew/parallel/mesh/mesh.hpp>'
mkdir core/base core/net
printf 'room core/base\nroom core/net base\n' >cmake/lint/rooms.txt
echo 'int b = 0;' >core/base/b.hpp
echo '#include <sinew/core/base/b.hpp>' >core/net/uses.hpp
expect rooms ok core/net/a.hpp <<<'#include <sinew/core/base/b.hpp>'
expect rooms 'core/base may include only: nothing' core/base/a.hpp <<<'#include <sinew/core/net/uses.hpp>'
expect rooms 'core/a.hpp: belongs to no room' core/a.hpp <<<'int a = 0;'
expect rooms 'includes another room by a path; write <sinew/core/base/b.hpp>' core/net/a.hpp <<<'#include "../base/b.hpp"'
touch core/net/{1..15}.hpp
expect rooms ok core/net/a.md <<<'no source'
expect rooms 'core/net: shows 17 headers' core/net/a.cpp <<<'int a = 0;'
expect rooms 'may include base, but nothing there does' core/net/uses.hpp <<<'int a = 0;'
expect rooms 'in a circle' cmake/lint/rooms.txt <<<$'room core/base net\nroom core/net base'
rm -r core/base core/net
expect intrinsics ok core/a.cpp <<<'int mm_count = 0;'
expect intrinsics 'core/a.cpp:2: code for one kind of CPU' core/a.cpp <<<$'void f() {\n_mm_pause();\n}'
expect page_size ok core/a.cpp <<<'int slots = 4096;  // not a page'
expect page_size 'core/a.cpp:1: a page size?' core/a.cpp <<<'int page = 4096;'
expect lengths ok core/a.cpp < <(yes '//' | head -n 500)
expect lengths 'core/a.cpp: 501 lines' core/a.cpp < <(yes '//' | head -n 501)
mkdir docs
printf '| word | meaning | not |\n|---|---|---|\n| in flight | begun and not ended | under way |\n' >docs/glossary.md
echo 'core/old.hpp 1' >cmake/lint/comments.txt
expect comments ok core/a.hpp <<<'/// Sums the shm, tcp, ucx, ofi and inproc parts, one after the other, into `out`. Never blocks.'
expect comments ok core/a.cpp <<<'const char* url = "http://a.b/Of a rank";  // of a rank'
expect comments ok core/old.hpp <<<'// Of a rank.'
expect comments 'core/old.hpp: 2 comments break the rules of language, 1 are allowed' core/old.hpp <<<$'// Of a rank.\n\n// Of a peer.'
expect comments "core/a.hpp:2: a sentence that begins in the middle, with 'What'" core/a.hpp <<<$'/// The ranks. The\n/// others. What a rank has.'
expect comments ok core/a.hpp <<<'/// What does a rank have?'
expect comments 'core/a.hpp:1: 3 commas between' core/a.hpp <<<$'/// The rank sends, where it has what\n/// it needs for that, a part of it there, which lies in host memory.'
expect comments "a double negation: 'never ends without'" core/a.hpp <<<'/// A call never ends without a status.'
expect comments "'under way' is a private word" core/a.hpp <<<'int calls = 0;  // under way'
expect comments 'core/a.hpp:1: a comment of 123 columns' core/a.hpp <<<"// $(yes word | head -n 24 | tr '\n' ' ')"
expect comments 'a.py:2: a sentence that begins in the middle' a.py <<<$'url = "# Of a rank"\n# Whether it is'
expect comments 'a.py:4: a sentence that begins in the middle' a.py <<<$'def f():\n    """Sums.\n\n    Of a rank."""'
printf 'core/old.hpp 3\ncore/gone.hpp 1\n' >cmake/lint/comments.txt
echo '// Of a rank.' | tee core/old.hpp >core/new.hpp
judge_comments lower
if [ "$(grep -v '^#' cmake/lint/comments.txt)" != 'core/old.hpp 1' ]; then
  echo "comments lower: expected the row 'core/old.hpp 1' alone, found: $(cat cmake/lint/comments.txt)"
  bad=1
fi
rm core/old.hpp core/new.hpp
expect shell ok a.sh <<<'echo hello'
expect shell 'a.sh: line' a.sh <<<'if true; then'
exit $bad

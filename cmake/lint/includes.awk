# awk -v table=may_include.txt -f includes.awk FILE..: prints each include that the table does not allow.
function is_system(header) {
  if (header !~ /[.\/]/) return 1                                      # C++: <vector>
  if (header ~ /^(sys|linux|netinet|arpa|net|asm|bits|ext)\//) return 1
  return header ~ /^(unistd|fcntl|poll|pthread|sched|semaphore|signal|spawn|dlfcn|netdb|ifaddrs|pwd|errno|time|link|stdio|stdlib|string|stdint|termios|elf|getopt|malloc|math|stdatomic|stddef|limits|cxxabi|endian|dirent|syscall)\.h$/
}
function is_in(file, places,    n, i, list) {
  if (places == "*") return 1
  n = split(places, list, " ")
  for (i = 1; i <= n; ++i) if (file == list[i] || index(file, list[i] "/") == 1 || index(file, list[i] ".") == 1) return 1
  return 0
}
function lies_beside(file, header,    folder, line, there) {
  folder = file; sub(/[^\/]*$/, "", folder)
  there = (getline line < (folder header)) >= 0
  close(folder header)
  return there
}
BEGIN {
  while ((getline line < table) > 0) {
    if (line ~ /^#/ || line !~ /[^ ]/) continue
    ++rows
    match(line, /^[^ ]+ +/); pattern[rows] = substr(line, 1, RLENGTH); rest = substr(line, RLENGTH + 1)
    sub(/ +$/, "", pattern[rows])
    kind[rows] = rest; sub(/ .*/, "", kind[rows])
    places[rows] = rest; sub(/^[^ ]+ +/, "", places[rows])
  }
  if (rows == 0) { print table ": no rows"; bad = 1; exit }
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
  quoted = $0 ~ /include[ \t]*"/
  header = $0; sub(/^[^"<]*["<]/, "", header); sub(/[">].*/, "", header)
  if (!quoted && is_system(header)) next
  if (quoted && FILENAME ~ /^(tools|tests|bench|examples|apps|python)\// && lies_beside(FILENAME, header)) next   # programs have no include root
  found = 0  # -inl.hpp: a part of sources, which they include once per instruction set
  why = ""
  for (i = 1; i <= rows && found < 2; ++i) {
    if (header !~ pattern[i]) continue
    found = 1
    if (!is_in(FILENAME, places[i])) why = "may be included only by: " places[i]
    else if (kind[i] == "cpp" && FILENAME ~ /\.hpp$/ && FILENAME !~ /-inl\.hpp$/) why = "belongs into a .cpp file: it is heavy, or a third party's name in a header"
    else found = 2
  }
  if (found == 1) complain(why)
  if (!found) complain("is in no row of " table)
}
function complain(why) { printf "%s:%d: %s %s\n", FILENAME, FNR, header, why; bad = 1 }
END { exit bad }

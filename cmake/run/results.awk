# Reads ctest's junit report and GoogleTest's reports in `results`; prints one line per case or failed program:
#   passed|failed|skipped <tab> test program <tab> case <tab> reason
# Both write one element per line, or split one at its attributes; elements are gathered until they close.
function attribute(text, name,    at, rest) {
  at = index(text, " " name "=\"")
  if (at == 0) return ""
  rest = substr(text, at + length(name) + 3)
  return unescaped(substr(rest, 1, index(rest, "\"") - 1))
}
function unescaped(text) {
  gsub(/&#x0A;/, " ", text); gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text)
  gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text); gsub(/&amp;/, "\\&", text)
  return text
}
function emit(kind, test, name, why) { printf "%s\t%s\t%s\t%s\n", kind, test, name, why }

# The cases of one GoogleTest program; returns how many of them failed, or -1 without a report.
function read_cases(test, status,    file, line, name, kind, why, open, failed, got) {
  file = results "/" test ".xml"
  failed = 0; open = 0; got = 0
  while ((getline line < file) > 0) {
    got = 1
    if (line ~ /<testcase /) {
      name = attribute(line, "classname") "." attribute(line, "name"); why = ""
      kind = line ~ /result="skipped"/ ? "skipped" : "passed"
      if (line ~ /status="notrun"/) continue
      open = 1
      if (line ~ /\/>[ \t]*$/) { emit(kind, test, name, ""); open = 0 }
    }
    if (open && line ~ /<failure/) { kind = "failed"; if (why == "") why = attribute(line, "message") }
    if (open && line ~ /<skipped/) why = attribute(line, "message")
    if (open && line ~ /<\/testcase>/) { emit(kind, test, name, why); failed += kind == "failed"; open = 0 }
  }
  close(file)
  return got ? failed : -1
}
function finish(    failed) {
  if (test == "") return
  failed = status == "run" || status == "fail" ? read_cases(test) : -1
  if (status == "fail" && failed <= 0) emit("failed", test, "(the program)", why == "" ? "see its output" : why)
  else if (failed < 0 && status == "run") emit(skipped ? "skipped" : "passed", test, "", why)
  else if (failed < 0) emit(status == "disabled" ? "skipped" : skipped ? "skipped" : "failed", test, "", status ": " why)
  test = ""
}
/<testcase / { finish(); test = attribute($0, "name"); status = attribute($0, "status"); why = ""; skipped = 0 }
/<failure/ { why = attribute($0, "message") }
/<skipped/ { skipped = status != "fail"; why = attribute($0, "message") }
END { finish() }

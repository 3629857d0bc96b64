#!/usr/bin/env bash
# The control of how ./run test counts: every kind of outcome once, also a program that crashed after its cases passed,
# and a transport none of whose cases ran.
#   results_control.sh SOURCE-FOLDER WORK-FOLDER
set -euo pipefail
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work/results"
cd "$source"
for part in cmake/run/*.sh; do source "$part"; done
cat >"$work/ctest.xml" <<'END'
<testsuite name="x" tests="7">
	<testcase name="good" classname="good" time="1.5" status="run">
		<system-out>[ OK ] &lt;testcase &lt;failure</system-out>
	</testcase>
	<testcase name="bad" classname="bad" time="1" status="fail">
		<failure message=""/>
	</testcase>
	<testcase name="crashed" classname="crashed" time="1" status="fail">
		<failure message="SEGFAULT"/>
	</testcase>
	<testcase name="timed_out" classname="timed_out" time="1" status="fail">
		<failure message="Timeout"/>
	</testcase>
	<testcase name="plain" classname="plain" time="1" status="run">
	</testcase>
	<testcase name="left_out" classname="left_out" time="0" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
	</testcase>
	<testcase name="no_program" classname="no_program" time="0" status="notrun">
	</testcase>
</testsuite>
END
cat >"$work/results/good.xml" <<'END'
    <testcase name="One" status="run" result="completed" classname="A" />
    <testcase name="Case/threads" status="run" result="completed" classname="inproc/Conformance" />
    <testcase name="Two" status="run" result="skipped" classname="A">
      <skipped message="f.cpp:1&#x0A;no &quot;namespaces&quot; here" />
    </testcase>
    <testcase name="DISABLED_Three" status="notrun" result="suppressed" classname="A" />
END
cat >"$work/results/bad.xml" <<'END'
    <testcase name="One" status="run" result="completed" classname="B" />
    <testcase name="Two" status="run" result="completed" classname="B">
      <failure message="f.cpp:1&#x0A;1 &lt; 2" type=""><![CDATA[f.cpp:1
1 < 2]]></failure>
    </testcase>
END
echo '    <testcase name="One" status="run" result="completed" classname="C" />' >"$work/results/crashed.xml"

test_rows=$work/rows
awk -v results="$work/results" -f cmake/run/results.awk "$work/ctest.xml" >"$test_rows"
check_transports_ran
status=0
report >"$work/report" || status=$?
cat >"$work/expected" <<'END'
failed: bad B.Two: f.cpp:1 1 < 2
failed: crashed (the program): SEGFAULT
failed: no_program: notrun: 
failed: timed_out (the program): Timeout
failed: transport shm: no case of the conformance suite passed, but it must be here
failed: transport tcp: no case of the conformance suite passed, but it must be here
skipped: good A.Two: f.cpp:1 no "namespaces" here
skipped: left_out: notrun: SKIP_RETURN_CODE=77
5 passed, 6 failed, 2 skipped
END
diff "$work/expected" "$work/report"
[ $status -ne 0 ]

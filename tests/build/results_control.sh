#!/usr/bin/env bash
# The control of how ./run test counts: every kind of outcome once, also a program that crashed after its cases passed, a
# transport none of whose cases ran, and one that was skipped as a whole with one kind of ranks.
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
    <testcase name="Case/threads" status="run" result="completed" classname="shm/Conformance" />
    <testcase name="Case/processes" status="run" result="skipped" classname="shm/Conformance">
      <skipped message="no processes here" />
    </testcase>
    <testcase name="Case/threads" status="run" result="skipped" classname="ofi/Conformance">
      <skipped message="unavailable: no provider" />
    </testcase>
    <testcase name="Other/threads" status="run" result="skipped" classname="ofi/Conformance">
      <skipped message="unavailable: no provider" />
    </testcase>
    <testcase name="Case/threads" status="run" result="skipped" classname="stranger/Conformance">
      <skipped message="not expected here" />
    </testcase>
    <testcase name="First/threads" status="run" result="skipped" classname="inproc/Conformance">
      <skipped message="one case of many" />
    </testcase>
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
printf '%s\n' inproc shm tcp ofi >"$work/expected_transports"
check_transports_ran "$work/expected_transports"
check_transports_ran nowhere
status=0
report >"$work/report" || status=$?
cat >"$work/expected" <<'END'
skipped: good A.Two: f.cpp:1 no "namespaces" here
skipped: good inproc/Conformance.First/threads: one case of many
skipped: good ofi/Conformance.Case/threads and 1 more: unavailable: no provider
skipped: good shm/Conformance.Case/processes: no processes here
skipped: good stranger/Conformance.Case/threads: not expected here
skipped: left_out: notrun: SKIP_RETURN_CODE=77
failed: bad B.Two: f.cpp:1 1 < 2
failed: crashed (the program): SEGFAULT
failed: no_program: notrun: 
failed: timed_out (the program): Timeout
failed: transport ofi: no case of the conformance suite ran, but it must be here: unavailable: no provider
failed: transport shm/processes: all cases of the conformance suite were skipped: no processes here
failed: transport tcp: no case of the conformance suite ran, but it must be here
failed: transports: there is no nowhere, which names those that must be here
6 passed, 8 failed, 7 skipped
END
diff "$work/expected" "$work/report"
[ $status -ne 0 ]

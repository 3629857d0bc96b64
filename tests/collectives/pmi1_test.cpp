// What is said about a PMI-1 server that refuses or garbles rank 0's record: all but that, which holds the secret.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The server of one process: answers as such a server does, unless `answer` has something else to say.
class FakePmi {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  explicit FakePmi(Answer answer) : answer_(std::move(answer)) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
    server_ = FileDescriptor(ends[0]);
    client_ = FileDescriptor::kept_by_children(ends[1]);
    ::fcntl(client_.get(), F_SETFD, 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakePmi() {
    client_ = FileDescriptor();
    ::shutdown(server_.get(), SHUT_RDWR);
    thread_.join();
  }
  FakePmi(const FakePmi&) = delete;
  FakePmi& operator=(const FakePmi&) = delete;

  /// A rank of two, alone on its host, that meets the other.
  std::string probe(int rank) const {
    return run_program({EXCHANGE_PROBE},
                       {fmt::format("PMI_RANK={}", rank), "PMI_SIZE=2", fmt::format("PMI_FD={}", client_.get()),
                        "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1", "SINEW_TIMEOUT=20s"})
        .out;
  }

 private:
  static std::string usual(const std::string& request) {
    const auto is = [&](const char* command) { return request.starts_with(std::string("cmd=") + command); };
    if (is("init")) return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (is("get_maxes")) return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024";
    if (is("get_my_kvsname")) return "cmd=my_kvsname kvsname=ours";
    if (is("put")) return "cmd=put_result rc=0 msg=success";
    if (is("barrier_in")) return "cmd=barrier_out";
    if (is("get")) return "cmd=get_result rc=0 value=1";
    return "cmd=finalize_ack";
  }
  void serve() const {
    std::string line;
    for (char c = 0; ::read(server_.get(), &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
        continue;
      }
      const std::string special = answer_(line);
      const std::string said = (special.empty() ? usual(line) : special) + "\n";
      ::send(server_.get(), said.data(), said.size(), MSG_NOSIGNAL);
      line.clear();
    }
  }

  Answer answer_;
  FileDescriptor server_;
  FileDescriptor client_;
  std::thread thread_;
};

bool is_of_record(const std::string& request) { return request.find(" key=sinew-0-1") != std::string::npos; }

TEST(Pmi1, RefusalOfRank0sRecord_IsSaidWithoutIt) {
  for (const std::string answer : {"cmd=put_result rc=-1 msg=full", "cmd=what"}) {
    const FakePmi pmi([&](const std::string& request) { return is_of_record(request) ? answer : std::string(); });
    EXPECT_THAT(pmi.probe(0), AllOf(HasSubstr("'cmd=put kvsname=ours key=sinew-0-1'"), Not(HasSubstr("value"))));
  }
}

TEST(Pmi1, RecordThatIsNone_IsNotShown) {
  const FakePmi pmi([](const std::string& request) {
    return is_of_record(request) ? std::string("cmd=get_result rc=0 value=0123456789abcdef-and-more") : std::string();
  });
  EXPECT_THAT(pmi.probe(1), AllOf(HasSubstr("Mismatch"), HasSubstr("25 characters"), Not(HasSubstr("0123456789"))));
}

}  // namespace
}  // namespace sinew::test

#include <chrono>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/store/server_search.hpp>

#include "served_store.hpp"

namespace sinew::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SocketAddress here(std::uint16_t port) { return SocketAddress::parse("127.0.0.1:0").with_port(port); }

/// Accepts connections and says nothing.
struct SilentListener {
  Listener listener = listen_everywhere(0, std::nullopt);
  SocketAddress address = here(listener.address.port());
};

/// Nobody listens there.
SocketAddress free_address() { return here(listen_everywhere(0, std::nullopt).address.port()); }

/// A service of a job at a port of its own.
class JobsPort {
 public:
  explicit JobsPort(Bytes secret)
      : port_(port_of_process({.number = free_address().port()})),
        service_(port_->serve({.service = kStoreService, .instance = 7}, std::move(secret),
                              [](const AuthClaim&, const Socket&) {})) {}
  SocketAddress address() const { return here(port_->number()); }

 private:
  std::shared_ptr<ListeningPort> port_;
  ListeningPort::Service service_;
};

class Search : public testing::Test {
 protected:
  ServerSearch::Options options(std::vector<SocketAddress> addresses) const {
    return {.addresses = std::move(addresses),
            .keys = {secret, nullptr},
            .claim = {.service = kStoreService, .instance = 7}};
  }
  /// The index of the address at which the server was found.
  std::size_t found(std::vector<SocketAddress> addresses) const {
    return ServerSearch(options(std::move(addresses)), Deadline::after(kLong)).next().second;
  }
  Error error(std::vector<SocketAddress> addresses, Duration timeout) const {
    return error_of([&] { ServerSearch(options(std::move(addresses)), Deadline::after(timeout)).next(); });
  }

  const Bytes secret = random_secret();
};

TEST_F(Search, FindsTheServer_WhereverItIs) {
  const JobsPort job(secret);
  EXPECT_EQ(found({job.address()}), 0u);
  EXPECT_EQ(found({free_address(), free_address(), job.address()}), 2u);
}

TEST_F(Search, IsNotDelayed_ByAListenerThatSaysNothing) {
  const JobsPort job(secret);
  const SilentListener first, second;
  const auto start = Clock::now();
  EXPECT_EQ(found({first.address, second.address, job.address()}), 2u);
  EXPECT_LT(Clock::now() - start, 1500ms) << "a silent listener may cost kStagger, and no attempt's 2 s";
}

TEST_F(Search, GoesBy_AListenerOfAnotherJob) {
  const JobsPort other(random_secret()), job(secret);
  EXPECT_EQ(found({other.address(), job.address()}), 1u);
}

TEST_F(Search, EndsWithMismatch_WhenTheOnlyListenerIsOfAnotherJob) {
  const JobsPort other(random_secret());
  const Error at_once = error({other.address()}, kLong);
  EXPECT_EQ(at_once.code(), Code::Mismatch);
  const SocketAddress nobody = free_address();
  const Error after_doubt = error({other.address(), nobody}, 300ms);
  EXPECT_EQ(after_doubt.code(), Code::Mismatch);
  EXPECT_THAT(after_doubt.what(), AllOf(HasSubstr(other.address().text()), HasSubstr("does not know the job's secret"),
                                        Not(HasSubstr(nobody.text()))));
}

TEST_F(Search, EndsWithTimeout_ThatSaysWhatIsAtTheAddresses) {
  const SilentListener silent;
  const SocketAddress nobody = free_address();
  const Error e = error({nobody, silent.address}, 2500ms);
  EXPECT_EQ(e.code(), Code::Timeout);
  EXPECT_EQ(e.rank(), 0);
  EXPECT_THAT(e.what(), AllOf(HasSubstr(silent.address.text() + ": whoever listens there says nothing"),
                              HasSubstr("rank 0 did not come"), Not(HasSubstr(nobody.text()))));
  EXPECT_THAT(error({nobody}, 50ms).what(), HasSubstr(nobody.text() + ": Connection refused"));
}

TEST_F(Search, TellsOnceWhatItHasFound_WhenTheNoticeIsDue) {
  const SilentListener silent;
  std::vector<std::string> told;
  auto of_search = options({free_address(), silent.address});
  of_search.notice = std::make_shared<SearchNotice>();
  of_search.notice->at = Clock::now() + 2500ms;  // when an attempt at the silent listener is over
  of_search.notice->say = [&](const std::string& findings) { told.push_back(findings); };
  EXPECT_EQ(error_of([&] { ServerSearch(of_search, Deadline::after(3500ms)).next(); }).code(), Code::Timeout);
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr(silent.address.text() + ": whoever listens there says nothing")));
  EXPECT_EQ(error_of([&] { ServerSearch(of_search, Deadline::after(50ms)).next(); }).code(), Code::Timeout);
  EXPECT_EQ(told.size(), 1U) << "a second search with the same notice says nothing more";
}

TEST_F(Search, TriesARejectedAddressAgain) {
  const JobsPort job(secret);
  ServerSearch search(options({job.address()}), Deadline::after(kLong));
  EXPECT_EQ(search.next().second, 0u);
  search.reject(0, "it is busy", false);
  EXPECT_EQ(search.next().second, 0u);
  search.reject(0, "it is another user's", true);
  EXPECT_EQ(error_of([&] { search.next(); }).code(), Code::Mismatch);
}

}  // namespace
}  // namespace sinew::test

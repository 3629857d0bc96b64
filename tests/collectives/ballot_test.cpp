#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/control/notice.hpp>
#include <sinew/collectives/control/survival/ballot.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/store/store_client.hpp>

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Where a leader listens: its host, and `interfaces` addresses as long as they come.
std::vector<SocketAddress> addresses(int interfaces) {
  std::vector<SocketAddress> all{SocketAddress::abstract("sinew-4294967295-shrink-0123456789abcdef")};
  for (int i = 0; i < interfaces; ++i)
    all.push_back(SocketAddress::parse("[2001:1db8:1234:5678:9abc:def1:2345:678" + std::to_string(i) + "]:65535"));
  return all;
}

/// As it reaches the others: a notice.
Ballot sent(const Ballot& ballot, std::size_t ranks) {
  const Status text{Code::Ok, message_of(ballot, ranks)};
  const Notice notice = Notice::of(NoticeKind::Proposal, 0, text, ballot.number);
  return parse_ballot(notice.communicator, notice.message(), ranks);
}

void expect_equal(const Ballot& a, const Ballot& b) {
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.members, b.members);
  EXPECT_EQ(format_addresses(a.addresses), format_addresses(b.addresses));
}

TEST(Ballot, FitsIntoANotice_WhateverRanksAreLeft) {
  for (const int ranks : {1, 7, 8, 9, 512, 4096}) {  // not a page
    for (const int hosts : {1, 2, 4, 63}) {          // ranks dealt out in turn; those of the last host are gone
      SCOPED_TRACE(std::to_string(ranks) + " ranks on " + std::to_string(hosts));
      Ballot ballot{12345, {}, addresses(8)};
      for (int r = 0; r < ranks; ++r) {
        if (hosts == 1 || r % hosts != hosts - 1) ballot.members.push_back(r);
      }
      expect_equal(sent(ballot, static_cast<std::size_t>(ranks)), ballot);
    }
  }
}

TEST(Ballot, SaysWhatDoesNotFit) {
  try {
    static_cast<void>(message_of({1, {0, 7999}, addresses(1)}, 8000));
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("8000 ranks"), HasSubstr("980 bytes"), HasSubstr("[2001:")));
  }
}

TEST(Ballot, RefusesWhatIsNone) {
  EXPECT_THROW(static_cast<void>(parse_ballot(1, "x", 9)), Error);
  EXPECT_THROW(static_cast<void>(parse_ballot(1, "xx, nowhere", 9)), Error);
}

}  // namespace
}  // namespace sinew::test

// Each rank trades its edges with both neighbours on a ring. Try: sinew-run -n 4 build/release/bin/messages_example
#include <array>
#include <cstdio>

#include <sinew/collectives/world.hpp>

int main() try {
  auto world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();
  if (all.size() < 2) throw sinew::Error(sinew::Code::InvalidArgument, "one rank has no neighbours: start at least 2");
  const int left = (all.rank() + all.size() - 1) % all.size();
  const int right = (all.rank() + 1) % all.size();

  // Everybody sends to the right and receives from the left: a pair that may not wait for each other.
  std::array<int, 1> mine = {10 * all.rank()};
  std::array<int, 1> of_left = {};
  all.sendrecv(mine, right, of_left, left).get();

  // A group may have any number of messages in flight. The tags tell messages to the right from messages to the left.
  std::array<int, 1> from_left = {};
  std::array<int, 1> from_right = {};
  using sinew::Message;
  all.group({Message::send(mine, right, 1), Message::recv(from_left, left, 1),  //
             Message::send(mine, left, 2), Message::recv(from_right, right, 2)})
      .get();

  std::printf("rank %d between %d and %d\n", all.rank(), from_left[0] / 10, from_right[0] / 10);
  return of_left == from_left ? 0 : 1;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "messages_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}

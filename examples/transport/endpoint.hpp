#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include <sinew/core/matcher.hpp>

#include "box.hpp"

namespace mailbox {

/// Two sockets to one peer: this side writes to the one that it dialled and reads from the one that the peer dialled.
/// Every message goes by rendezvous: it stays at its sender until the receiver's matcher has found its receive.
class PeerEndpoint final : public sinew::Endpoint, sinew::MatcherWire {
 public:
  PeerEndpoint(Box& box, Where peer);
  ~PeerEndpoint() override;

  void send(sinew::ConstBuffer from, sinew::Tag tag, std::uint64_t note, sinew::Completion& done) override;
  void recv(sinew::Sink to, sinew::Tag tag, sinew::Completion& done) override;
  bool has_unexpected(sinew::Tag tag) const noexcept override { return matcher_.has_unexpected(tag); }
  bool cancel(sinew::Completion& done) override;
  void close(sinew::Completion& closed) override;

  void attach(sinew::FileDescriptor from_peer);
  void ready(int descriptor, std::uint32_t events);
  bool active() const noexcept { return matcher_.pending() != 0 || !sends_.empty() || !packets_.empty(); }

 private:
  // What the matcher wants.
  void grant(std::uint64_t id, sinew::Completion& receive) override;
  void refuse(std::uint64_t id, sinew::Code why, std::uint64_t note) override;
  void return_credit(std::size_t) override {}

  void write(const Packet& packet);
  void flush();
  bool flush_piece(sinew::Completion& send);
  void read();
  void handle(const Packet& packet, std::size_t piece_bytes);
  void granted(const Packet& packet);
  void refused(const Packet& packet);
  void withdrawn(std::uint32_t message);
  void data(std::uint32_t message, std::size_t piece_bytes);
  void peer_closed();
  void lose();
  void end(const sinew::Status& reason);

  Box& box_;
  const Where peer_;
  sinew::Matcher matcher_;
  sinew::FileDescriptor from_peer_;
  sinew::FileDescriptor to_peer_;
  bool wants_room_ = false;
  sinew::Status end_{};
  std::uint32_t last_message_ = 0;
  std::deque<Packet> packets_;                            // to be written, without data
  std::map<std::uint32_t, sinew::Completion*> sends_;     // requested and not written in full
  std::deque<sinew::Completion*> granted_;                // those sends that the peer has granted; they take turns
  std::map<std::uint32_t, sinew::Completion*> arriving_;  // receives that were granted, by the peer's number
};

}  // namespace mailbox

#include "launcher/os/tcp_facts.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "launcher/os/fd.h"

namespace muster {

namespace {

bool is_own_address(const sockaddr_storage& address, socklen_t size) {
  const Fd probe(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe && ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

// Who sent the error, with port 0; nothing: not known.
bool is_from_here(const cmsghdr& entry) {
  const bool is_v4 = entry.cmsg_level == IPPROTO_IP && entry.cmsg_type == IP_RECVERR;
  const bool is_v6 = entry.cmsg_level == IPPROTO_IPV6 && entry.cmsg_type == IPV6_RECVERR;
  const std::size_t size = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const std::size_t error_size = sizeof(sock_extended_err);
  if ((!is_v4 && !is_v6) || entry.cmsg_len < CMSG_LEN(error_size + size)) return false;
  sockaddr_storage sender{};
  std::memcpy(&sender, CMSG_DATA(&entry) + error_size, size);
  return is_own_address(sender, static_cast<socklen_t>(size));
}

}  // namespace

std::optional<std::chrono::microseconds> tcp_round_trip(int socket) {
  tcp_info facts{};
  socklen_t size = sizeof facts;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &facts, &size) != 0) return std::nullopt;
  const std::size_t needed = offsetof(tcp_info, tcpi_min_rtt) + sizeof facts.tcpi_min_rtt;
  const bool is_measured = size >= needed && facts.tcpi_min_rtt != ~__u32{0};
  if (!is_measured) return std::nullopt;
  return std::chrono::microseconds{facts.tcpi_min_rtt};
}

void keep_network_errors(int socket, bool keeps) {
  const int value = keeps ? 1 : 0;
  ::setsockopt(socket, IPPROTO_IP, IP_RECVERR, &value, sizeof value);  // one of them is its own
  ::setsockopt(socket, IPPROTO_IPV6, IPV6_RECVERR, &value, sizeof value);
}

bool was_nobody_there(int socket) {
  alignas(cmsghdr) char control[512];
  char text[512];
  iovec part{text, sizeof text};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return false;
  for (const cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr;
       at = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(at))) {
    if (is_from_here(*at)) return true;
  }
  return false;
}

}  // namespace muster

#include "launcher/sandbox/interface.h"

#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "launcher/os/fd.h"

namespace muster {

namespace {

void put_address(sockaddr& place, Address address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr.s_addr = htonl(address);
  std::memcpy(&place, &internet, sizeof internet);
}

ifreq request_about(const std::string& interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  return request;
}

Fd control_socket() {
  return Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

Error failed(const std::string& interface) {
  return Error{"cannot set up the interface " + interface + ": " + std::strerror(errno)};
}

}  // namespace

Status bring_up(const std::string& interface, const std::optional<InterfaceAddress>& address) {
  const Fd socket = control_socket();
  ifreq request = request_about(interface);
  if (address) {
    put_address(request.ifr_addr, address->address);
    if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) return failed(interface);
    put_address(request.ifr_netmask, ~Address{0} << (32 - address->prefix_bits));
    if (::ioctl(socket.get(), SIOCSIFNETMASK, &request) != 0) return failed(interface);
  }
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return failed(interface);
  request.ifr_flags |= IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return failed(interface);
  return Done{};
}

Status add_default_route(Address gateway) {
  const Fd socket = control_socket();
  rtentry route{};
  put_address(route.rt_dst, 0);
  put_address(route.rt_genmask, 0);
  put_address(route.rt_gateway, gateway);
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  if (::ioctl(socket.get(), SIOCADDRT, &route) == 0 || errno == EEXIST) return Done{};
  return Error{"cannot set the route to " + address_text(gateway) + ": " + std::strerror(errno)};
}

Result<bool> is_up(const std::string& interface) {
  const Fd socket = control_socket();
  ifreq request = request_about(interface);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return failed(interface);
  return (request.ifr_flags & IFF_UP) != 0;
}

}  // namespace muster

#include "templates/cluster/connect_keys.h"

namespace muster {
namespace {

constexpr int most_handshakes = 1024;  // each holds a socket and some 100 KiB
constexpr int most_per_host = 100;     // sshd's MaxStartups drops all of them from here on
constexpr int most_retries = 100;
constexpr int least_radix = 2, most_radix = 256;

void read_number(const Value& value, int lowest, int highest, int& field) {
  if (const auto number = value.integer(lowest, highest)) field = *number;
}

void read_time(const Value& value, Milliseconds& field) {
  const auto duration = value.duration();
  if (!duration) return;
  if (*duration < Seconds{1}) value.error("expected 1 second or more");
  field = *duration;
}

void read_fan_out(const Value& value, TransportKind transport, ConnectSettings& connect) {
  if (!value.present()) return;
  if (transport != TransportKind::local) {
    return value.error("nodes are reached over ssh, and each has a link of its own",
                       "remove 'fan_out'");
  }
  MapReader map(value);
  read_number(map.take("above"), 0, ConnectSettings::most_nodes, connect.fan_out_above);
  read_number(map.take("radix"), least_radix, most_radix, connect.fan_out_radix);
  read_time(map.take("patience"), connect.fan_out_patience);
  read_time(map.take("set_aside"), connect.fan_out_set_aside);
  read_time(map.take("silence"), connect.fan_out_silence);
  map.finish();
}

}  // namespace

ConnectSettings read_connect(const Value& value, TransportKind transport) {
  MapReader map(value);
  ConnectSettings connect;
  read_fan_out(map.take("fan_out"), transport, connect);
  connect.refuses_unknown_hosts =
      map.take("unknown_hosts").choice<bool>({{"record", false}, {"refuse", true}}).value_or(false);
  read_number(map.take("handshakes"), 1, most_handshakes, connect.handshakes);
  read_number(map.take("unauthenticated_per_host"), 1, most_per_host,
              connect.unauthenticated_per_host);
  read_number(map.take("retries"), 0, most_retries, connect.retries);
  read_time(map.take("resolve_timeout"), connect.resolve_timeout);
  read_time(map.take("tcp_timeout"), connect.tcp_timeout);
  read_time(map.take("login_timeout"), connect.login_timeout);
  read_time(map.take("silence"), connect.silence);
  map.finish();
  return connect;
}

}  // namespace muster

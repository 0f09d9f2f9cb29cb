// What the kernel knows of a TCP connection and does not put into an error code. Pure questions; a
// kernel that does not answer leaves it unknown.
#pragma once

#include <chrono>
#include <optional>

namespace muster {

// The shortest round trip so far: other than a message's, no busy process lengthens it.
std::optional<std::chrono::microseconds> tcp_round_trip(int socket);

// Before it connects, for the question below; afterwards off again, or a router's passing word
// would end the connection.
void keep_network_errors(int socket, bool keeps);

// This machine has had no answer to its own search for the host or the next router (ARP, neighbour
// discovery), so that nobody has refused anything: of a connection that failed as unreachable.
bool was_nobody_there(int socket);

}  // namespace muster

// What the agent and muster-hold, process 1 of an attempt's container, say to each other over a
// Unix socket of packets. The agent sends a number with five descriptors (SCM_RIGHTS): what to
// start, its standard input, output and errors, and a pipe, which ends when the program runs and
// otherwise says "ERRNO STAGE". "begun" comes from the new process itself, so that the kernel tells
// the agent its number outside (SCM_CREDENTIALS). When the socket ends, muster-hold ends, and the
// container with it.
//
//   agent: "ID"      muster-hold: "here" first; "begun ID", "ended ID WAITSTATUS"
#pragma once

namespace muster {

// What to start is a file of entries, each with its first letter, ended by a null.
inline constexpr char hold_variable = 'E';  // ENAME=value; those of the image stay
inline constexpr char hold_last = 'L';      // like it, behind what the image has there, and a colon
inline constexpr char hold_first = 'F';     // like it, before what the image has there, and a colon
inline constexpr char hold_directory = 'D';
inline constexpr char hold_argument = 'A';  // the first is looked up in PATH
inline constexpr char hold_terminal = 'T';  // standard input is one: it becomes the session's

// muster-hold itself: needs nothing of the image; one thread; returns the exit code.
int hold(const char* socket_path);

inline constexpr unsigned hold_message_bytes = 256;
inline constexpr int hold_descriptors = 5;

}  // namespace muster

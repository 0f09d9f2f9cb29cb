// What a controller and an agent say to each other. A message is one frame (frame.h): a CBOR header
// made from these fields, and raw bytes beside it (`payload`) for the kinds that carry data. Every
// message about an attempt names it; an agent answers repeated requests again and does the work
// once.
//
// Conversation: Hello -> Welcome, then requests in any order; Ping at least every lease/5.
// What renews the agent's lease is said at Ping.
#pragma once

#include "launcher/wire/agent_report.h"
#include "launcher/wire/agent_request.h"

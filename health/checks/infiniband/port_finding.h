// Findings about one port or its device, in the words that all InfiniBand checks share. Pure.
#pragma once

#include <string>
#include <string_view>

#include "health/checks/infiniband/port.h"
#include "health/model/check.h"

namespace muster {

// A pass as yet, about what stands in the file `leaf` of the port.
HealthFinding port_finding(const CheckSpec& check, const InfinibandPort& port,
                           std::string_view leaf);
// About the device of the port.
HealthFinding device_finding(const CheckSpec& check, const InfinibandPort& port,
                             std::string_view leaf);

HealthFinding as_unknown(HealthFinding finding, std::string why);
// A file of the finding's source that could not be read.
HealthFinding as_unreadable(HealthFinding finding, const FileReading& reading);
// One that was read and says what nobody understands.
HealthFinding as_not_understood(HealthFinding finding, std::string_view text);
HealthFinding as_failed(HealthFinding finding, CheckSeverity severity);
HealthFinding as_failed(HealthFinding finding);  // as the catalogue says

// A failure of a link that may still be coming up after boot says nothing yet.
HealthFinding with_grace(HealthFinding finding, const CheckInput& input);

// Whether `left` leads to more than `right`.
bool is_severer(const CheckSeverity& left, const CheckSeverity& right);
// "131", "0.43"
std::string shown_number(double value);

}  // namespace muster

// For a test that cannot run here.
#pragma once

#include <string>

// The test returns next; it counts as skipped unless a check of it failed.
void skip_test(const std::string& why);

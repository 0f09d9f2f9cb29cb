// The one place that knows which Catch2 is installed: v2 on Debian 12, v3 on newer systems.
#pragma once
#ifdef MUSTER_CATCH_V3
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif

# Writes OUTPUT, a C++ source in which FUNCTION (declared in HEADER) gives the text of INPUT; run as
# cmake -P.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace muster {

std::string_view ${FUNCTION}() {
  return R\"program(${text})program\";
}

}  // namespace muster
")

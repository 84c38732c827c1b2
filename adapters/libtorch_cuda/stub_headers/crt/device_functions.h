// See host_defines.h: of this file nothing is needed.
#pragma once

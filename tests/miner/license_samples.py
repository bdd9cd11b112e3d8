"""Licence texts that are cut down to what tells them."""

from __future__ import annotations

MIT = """MIT License

Copyright (c) 2020 Ada

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights.

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND.
"""
BSD2 = """Copyright 2020 Ada. All rights reserved.

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:
1. Redistributions of source code must retain the above copyright notice.
2. Redistributions in binary form must reproduce the above copyright notice.
"""
BSD3 = BSD2 + "3. Neither the name of Ada may be used to endorse or promote products derived from this.\n"
BSD4 = BSD3 + "4. All advertising materials mentioning features must display an acknowledgement.\n"
APACHE = "Apache License\nVersion 2.0, January 2004\n\n3. Grant of Patent License. Subject to the terms.\n"
GPL3 = "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n\n4. Conveying Verbatim Copies.\n"
LGPL3 = "GNU LESSER GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\n\n4. Combined Works.\n"
